"""The assignors of kafka-python, and what its consumers send."""
