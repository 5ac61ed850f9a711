"""Kafka's assignors, pure: subscriptions in, assignment out."""
