"""Completion: shell scripts and suggestions."""
