"""Mutation testing: whether tests notice that a line of the code says something else."""
