"""The commands of `kgroup history`, one module each."""
