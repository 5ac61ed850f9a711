"""Where groups, offsets and records come from."""
