"""Source of a live cluster, which sends requests to its brokers."""
