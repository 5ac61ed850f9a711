"""The commands of `kgroup members`, a module each."""
