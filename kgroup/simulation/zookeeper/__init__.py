"""Consumers of Kafka 0.8, which live on ZooKeeper, as state machines: Kafka 0.8.2.2."""
