"""All that changes something on brokers: offsets and groups, and only those that are named."""
