"""Encoding and decoding of Kafka's binary formats, without I/O."""
