"""Kafka's message format: primitives, schemas, and encoding and decoding by schema."""
