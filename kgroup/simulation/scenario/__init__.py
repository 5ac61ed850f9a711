"""Scenarios: reading their files, and playing them."""
