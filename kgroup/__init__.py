"""kgroup: inspect and administer Kafka consumer groups of every era."""

from __future__ import annotations

__version__ = "1.0.0"
