"""Compiled functions: walkers over bytes, the machine for messages, their memory, their cache."""
