"""The commands of `kgroup zk`, one module each."""
