"""Kafka's message format: primitives, schemas, and values by a schema."""
