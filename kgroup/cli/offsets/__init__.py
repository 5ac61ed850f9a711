"""The commands of `kgroup offsets`, a module each."""
