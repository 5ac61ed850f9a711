"""What a group is: frozen values without I/O."""
