"""Consumers of Kafka 0.8.2.2, which coordinate through ZooKeeper, as state machines."""
