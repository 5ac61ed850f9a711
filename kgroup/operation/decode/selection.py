"""Which rows of the decoded log are wanted, as masks over Arrow columns.

Arrow's functions are imported where there is something to filter: that takes a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa

from kgroup.errors import near_names
from kgroup.model.pattern import Pattern
from kgroup.model.record import TransactionStatus
from kgroup.protocol.record.coordinator_record import CONTROL_TYPES

NOT_COMMITTED = frozenset({TransactionStatus.ABORTED, TransactionStatus.OPEN})
"""Statuses of transactional records that count for nothing, or not yet."""
MOST_SEEN = 10_000
"""About how many names of a log are kept, to tell one that may have been meant."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What to keep of batches of `DECODED`; an empty set, or None, keeps everything.

    Attributes:
        groups: ids of groups, as they are.
        group_pattern: which the whole id of a group must match; a group is kept that is in
            `groups` or matches.
        topics: names of users' topics.
        topic_partitions: partitions of users' topics.
        types: record types.
        from_offset: smallest offset.
        since_ms: smallest time, see `row_time_ms`; a row without any is left out.
        until_ms: first time that is too late.
        without_statuses: those of transactional records that are left out; markers are too, if
            any is.
    """

    groups: frozenset[str] = frozenset()
    group_pattern: Pattern | None = None
    topics: frozenset[str] = frozenset()
    topic_partitions: frozenset[int] = frozenset()
    types: frozenset[str] = frozenset()
    from_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    without_statuses: frozenset[str] = frozenset()

    def by_key(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep rows by what their keys say: group, topic, partition and type.

        All records of one key are kept, or none, so this may come before a view that looks for
        the last record of each key.
        """
        masks = []
        if self.groups or self.group_pattern is not None:
            masks.append(_text_mask(batch["group"], self._wants_group))
        if self.topics:
            masks.append(_text_mask(batch["topic"], self.topics.__contains__))
        if self.topic_partitions:
            import pyarrow.compute as pc

            wanted = pa.array(sorted(self.topic_partitions), pa.int64())
            masks.append(pc.is_in(batch["topic_partition"].cast(pa.int64()), wanted))
        if self.types:
            masks.append(_text_mask(batch["type"], self.types.__contains__))
        return _filter(batch, masks)

    def by_transaction_status(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep rows by their offset and by what became of their transaction."""
        masks = []
        if self.from_offset is not None:
            import pyarrow.compute as pc

            masks.append(pc.greater_equal(batch["offset"], self.from_offset))
        if self.without_statuses:
            without = self.without_statuses.union(CONTROL_TYPES.values())
            for name in ("transaction", "type"):
                masks.append(_text_mask(batch[name], lambda text: text not in without, null=True))
        return _filter(batch, masks)

    def by_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep rows by their time; after a view, since it is the times of the result that count."""
        if self.since_ms is None and self.until_ms is None:
            return batch
        import pyarrow.compute as pc

        masks = []
        if self.since_ms is not None:
            masks.append(pc.greater_equal(row_time_ms(batch), self.since_ms))
        if self.until_ms is not None:
            masks.append(pc.less(row_time_ms(batch), self.until_ms))
        return _filter(batch, masks)

    def _wants_group(self, group_id: str) -> bool:
        return group_id in self.groups or (
            self.group_pattern is not None and self.group_pattern.fullmatch(group_id) is not None
        )


class Names:
    """Which of the names that were asked for the log has at all.

    Attributes:
        wanted: names, in the order they were given.
        found: those that were seen.
    """

    def __init__(self, column: str, wanted: Iterable[str]) -> None:
        self.wanted = tuple(dict.fromkeys(wanted))
        self._column = column
        self.found: set[str] = set()
        self._seen: set[str] = set()

    @property
    def missing(self) -> tuple[str, ...]:
        """Names not seen yet."""
        return tuple(name for name in self.wanted if name not in self.found)

    def meant(self, name: str) -> str:
        """Ask, as the end of a sentence, whether names that were seen are what a missing one is."""
        return near_names(name, sorted(self._seen)) or "."

    def look(self, batch: pa.RecordBatch) -> None:
        """Take note of the names in a batch of `DECODED`; from several threads, if need be."""
        if missing := self.missing:
            import pyarrow.compute as pc

            # As bytes: a command line that is no UTF-8 gives names that are no text to Arrow.
            names = pa.array([name.encode(errors="surrogatepass") for name in missing])
            texts = batch[self._column].dictionary
            there = texts.cast(pa.binary())
            found = names.filter(pc.is_in(names, there)).to_pylist()
            self.found.update(name.decode() for name in found)
            if len(self._seen) < MOST_SEEN:
                self._seen.update(texts.to_pylist())


def row_time_ms(batch: pa.RecordBatch) -> pa.Array:
    """Say when each record was written: its timestamp, else (format v0) that of the commit."""
    import pyarrow.compute as pc

    commit_time_ms = batch["commit_timestamp_ms"]
    is_known = pc.not_equal(commit_time_ms, -1)
    return pc.coalesce(batch["timestamp_ms"], pc.if_else(is_known, commit_time_ms, None))


def _text_mask(column: pa.Array, wants: Callable[[str], bool], *, null: bool = False) -> pa.Array:
    """Ask once for each text of a dictionary column; `null` is the answer for rows without one."""
    import pyarrow.compute as pc

    answers = pa.array([wants(text) for text in column.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(answers.take(column.indices), null)


def _filter(batch: pa.RecordBatch, masks: list[pa.Array]) -> pa.RecordBatch:
    if not masks:
        return batch
    import pyarrow.compute as pc

    return batch.filter(reduce(pc.and_kleene, masks))
