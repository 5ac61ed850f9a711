"""A live cluster, asked of its brokers; nothing but questions is sent."""
