"""Dry runs of assignments: what a group's members would own, and which partitions would move."""
