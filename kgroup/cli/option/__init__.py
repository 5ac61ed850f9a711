"""Options shared by several commands, and the values that they produce."""
