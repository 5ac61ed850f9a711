"""The commands of `kgroup plan`, one module each."""
