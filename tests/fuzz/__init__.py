"""A run of damaged inputs over every reader: ``python -m tests.fuzz``, see `__main__`."""
