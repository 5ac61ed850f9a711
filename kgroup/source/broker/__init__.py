"""A live cluster, asked of its brokers; all that changes something is in `write`."""
