"""What went wrong on the way, as a value: it travels beside the rows and never replaces them."""

from dataclasses import dataclass

__all__ = ["Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that could not be read, found or believed.

    Attributes:
        kind: stable short word for programs: the kinds of `record_batch.Damage`, or
            "unknown-record", "bad-record", "inconsistent", "not-found".
        reason: whole sentence for people: what was expected, what was found.
        group_id: the group concerned.
        path: file concerned.
        position: byte position in that file.
        offsets_partition: partition of `__consumer_offsets`.
        offset: offset of the record in it.
    """

    kind: str
    reason: str
    group_id: str | None = None
    path: str | None = None
    position: int | None = None
    offsets_partition: int | None = None
    offset: int | None = None
