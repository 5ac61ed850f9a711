"""Completion: the scripts of shells, and what a word may become."""
