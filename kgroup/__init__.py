"""kgroup: inspect and administer Kafka consumer groups of every era."""

__all__ = ["__version__"]

__version__ = "0.1.0"
