"""Ownership of partitions and tasks over time, derived from the records."""
