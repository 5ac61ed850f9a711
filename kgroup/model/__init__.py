"""Groups and what belongs to them: immutable values without I/O."""
