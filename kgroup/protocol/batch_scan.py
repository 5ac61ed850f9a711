"""What the batches of a log say, without their records."""

from collections.abc import Sequence
from pathlib import Path

from kgroup.protocol.record_batch import RecordBatch, read_file_batches
from kgroup.protocol.transaction import TransactionIndex

__all__ = ["scan_transactions"]


def scan_transactions(
    paths: Sequence[Path], index: TransactionIndex | None = None
) -> TransactionIndex:
    """Collect the markers of one partition from its segments; damage in them is passed over."""
    index = TransactionIndex() if index is None else index
    for path in paths:
        with path.open("rb", buffering=0) as file:
            for item in read_file_batches(file):
                if isinstance(item, RecordBatch):
                    index.add(item)
    return index
