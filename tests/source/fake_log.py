"""A log of a topic, as a fake broker serves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.columnar.log_writer import Plain


@dataclass
class FakeLog:
    """A partition as a broker holds it.

    Attributes:
        batches: last offset and bytes of each.
        aborted: producer id, first and last offset of transactions that came to nothing.
        end: the high watermark; None for what follows the last batch.
        stable: the last stable offset; None for the end.
        error: given instead of records.
    """

    batches: list[tuple[int, bytes]]
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    end: int | None = None
    stable: int | None = None
    error: int = 0

    def answer(self, wanted: Any, *, committed: bool, is_first: bool) -> dict[str, Any]:
        """Answer as `ReplicaManager.readFromLog` and `LocalLog.read` do."""
        end = self.batches[-1][0] + 1 if self.end is None else self.end
        stable = end if self.stable is None else self.stable
        bound = stable if committed else end
        data = b"".join(
            content for last, content in self.batches if wanted.fetch_offset <= last < bound
        )
        first = next(
            (len(content) for last, content in self.batches if wanted.fetch_offset <= last < bound),
            0,
        )
        room = wanted.partition_max_bytes
        if first > room:
            room = first if is_first else 0
        return {
            "partition_index": wanted.partition,
            "error_code": self.error,
            "high_watermark": end,
            "last_stable_offset": stable,
            "aborted_transactions": [
                {"producer_id": producer, "first_offset": first}
                for producer, first, last in self.aborted
                if last >= wanted.fetch_offset
            ]
            if committed
            else None,
            "records": b"" if self.error else data[:room],
        }


def fetched(request: Any, log_of: Callable[[int], FakeLog]) -> dict[str, Any]:
    """Answer a Fetch for partitions with these logs; only the first records may exceed a limit."""
    has_sent = False
    responses = []
    for topic in request.topics:
        rows = []
        for wanted in topic.partitions:
            log, committed = log_of(wanted.partition), request.isolation_level == 1
            rows.append(log.answer(wanted, committed=committed, is_first=not has_sent))
            has_sent = has_sent or bool(rows[-1]["records"])
        responses.append({"topic": topic.topic, "partitions": rows})
    return {"responses": responses}


def records(*offsets: int) -> list[Plain]:
    """Records that were made 1000 ms one after another, by their offsets."""
    return [Plain(offset, 1000 * offset, None, b"x" * 10) for offset in offsets]
