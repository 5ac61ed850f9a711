"""What administrators ask brokers, beside groups and offsets."""
