"""Scenarios: what is in their files, and how they are played."""
