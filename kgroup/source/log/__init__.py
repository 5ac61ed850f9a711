"""Source of a broker's log directory, or any folder of `__consumer_offsets` segments."""
