"""The records of `__consumer_offsets`: which are wanted, and what they add up to."""
