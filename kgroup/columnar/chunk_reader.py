"""Read a file in chunks with compiled code, several concurrently, and skip damage between them.

A chunk ends where a valid batch was found; its result is used only if its batches lead there. If
compiled code finds an invalid batch, or passes the end, `record_batch.read_file_batches` continues
from there up to the next valid batches, and the following chunks are discarded. Damage is therefore
always read in the same way.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from kgroup.columnar.chunk_size import SIZES, processor_count
from kgroup.kernel.memory import LOCATOR_SHIFT
from kgroup.protocol.batch.batch import Damage, Effort, RecordBatch
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange
from kgroup.protocol.batch.record_batch import read_file_batches

if TYPE_CHECKING:
    from kgroup.columnar.locator import Locators
    from kgroup.columnar.log_chunk import Chunk, Cutter

_T = TypeVar("_T")

_SEARCH_SIZE = 1 << 15
_SOON = 16
"""Factor of `sound_size`: damage within that distance of a new start counts as soon."""
_THP_DISABLE = 41
"""PR_SET_THP_DISABLE of Linux's `prctl`."""


def read_chunks(
    path: Path,
    in_chunk: Callable[[Chunk], tuple[list[_T], int | None]],
    in_batches: Callable[[Iterator[RecordBatch | Damage]], Iterator[_T | Damage]],
    *,
    part: ByteRange = WHOLE,
    locators: Locators | None = None,
    workers: int | None = None,
    on_compile: Callable[[], None] | None = None,
) -> Iterator[_T | Damage]:
    """Yield the results of the chunks of a file, and the damage between its batches.

    Args:
        path: the file.
        in_chunk: returns the results of a chunk, and the position of an invalid batch, None if it
            reached the end; called in several threads concurrently.
        in_batches: yields the results of batches that are read where no chunk can be, and the
            damage between and in them as soon as it is found.
        part: range of the file to read.
        locators: locators of the wanted records; by default all.
        workers: see `decode_chunks`.
        on_compile: called before code is compiled.
    """
    from kgroup.columnar.log_chunk import Cutter
    from kgroup.kernel.compiled import load

    load(on_compile)
    refuse_huge_pages()

    if workers is None:
        workers = min(processor_count(), SIZES.workers)
    # one chunk waits while rows are consumed
    most_ahead = ahead = workers + 1 if workers > 1 else 0
    pending: deque[Future[tuple[list[_T], int | None]]] = deque()
    started = part.start
    least_sound, most_sound = SIZES.sound
    sound_size = least_sound
    effort = Effort(part.start)
    with path.open("rb", buffering=0) as file, _pool(workers) as pool:
        cutter = Cutter(file, part)
        try:
            while True:
                while (
                    len(pending) <= ahead
                    and _go_to_wanted(cutter, locators)
                    and (chunk := cutter.next()) is not None
                ):
                    pending.append(pool.submit(in_chunk, chunk))
                if pending:
                    batches, stop = pending.popleft().result()
                    yield from batches
                    if stop is None:
                        ahead = most_ahead
                        continue
                    _cancel(pending)
                else:
                    stop = cutter.position
                # continue at the next wanted batch: wrong lengths may have led past it
                stop = _first_wanted(locators, stop)
                if stop is None or not part.has(stop):
                    return
                is_soon = stop - started < _SOON * sound_size
                sound_size = min(2 * sound_size, most_sound) if is_soon else least_sound
                left = ByteRange(stop, part.end)
                resumed = yield from _read_over(file, left, sound_size, in_batches, effort)
                if resumed is None:
                    return
                cutter.seek(resumed)
                started = resumed
                ahead = 0  # more damage is likely, and work ahead of it would be lost
        finally:
            _cancel(pending)


def _read_over(
    file: BinaryIO,
    part: ByteRange,
    sound_size: int,
    in_batches: Callable[[Iterator[RecordBatch | Damage]], Iterator[_T | Damage]],
    effort: Effort,
) -> Generator[_T | Damage, None, int | None]:
    """Read what compiled code cannot; return where to resume, None at the end of the part.

    Compiled code resumes after `sound_size` valid bytes.
    """
    file.seek(part.start)
    sound = 0
    resumed = None

    def slow() -> Iterator[RecordBatch | Damage]:
        nonlocal sound, resumed
        for item in read_file_batches(file, part=part, chunk_size=_SEARCH_SIZE, effort=effort):
            if isinstance(item, RecordBatch):
                if sound > sound_size:
                    resumed = item.position
                    return
                sound += item.size
            yield item

    for batch in in_batches(slow()):
        if isinstance(batch, Damage):
            sound = 0
        yield batch
    return resumed


def _go_to_wanted(cutter: Cutter, locators: Locators | None) -> bool:
    """Skip a range of the file without wanted records; return False if no more are wanted."""
    wanted = _first_wanted(locators, cutter.position)
    if wanted is not None and wanted > cutter.position + SIZES.gap:
        cutter.seek(wanted)
    return wanted is not None


def _first_wanted(locators: Locators | None, position: int) -> int | None:
    """Return the position of the first batch with a wanted record, from a position on."""
    if locators is None:
        return position
    at = int(locators.searchsorted(position << LOCATOR_SHIFT))
    return None if at == len(locators) else int(locators[at]) >> LOCATOR_SHIFT


class _Here(Executor):
    """Runs functions immediately in the caller's thread."""

    def submit(  # type: ignore[override]
        self, function: Callable[..., _T], *arguments: Any
    ) -> Future[_T]:
        future: Future[_T] = Future()
        future.set_result(function(*arguments))
        return future


def _pool(workers: int) -> Executor:
    return ThreadPoolExecutor(workers) if workers > 1 else _Here()


def _cancel(pending: deque[Future[_T]]) -> None:
    for future in pending:
        future.cancel()
    pending.clear()


def refuse_huge_pages() -> None:
    """Disable huge pages for this process and its children.

    numpy requests huge pages. Columns are freed soon, and a huge page is cleared as a whole each
    time, even if little of it is used. This has an effect on Linux only.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_THP_DISABLE, 1, 0, 0, 0)
