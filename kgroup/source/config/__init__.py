"""A Kafka client's settings: where they stand, what they mean, TLS and SASL after them."""
