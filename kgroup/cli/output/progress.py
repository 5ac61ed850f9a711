"""Progress of long runs on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from kgroup.cli.output.context import is_terminal, warn

if TYPE_CHECKING:
    from kgroup.columnar.log_reader import LogReader
    from kgroup.source.broker.live_log import LiveLog

FIRST_S = 1.0
EVERY_S = 0.2


class ProgressLine:
    """A line that is updated in place, starting after one second."""

    def __init__(self, *, writes_rows: bool, unit: str = "file", is_wanted: bool = True) -> None:
        """Decide whether to show progress: not if rows are written to the same terminal."""
        self._unit = unit
        in_the_way = writes_rows and is_terminal()
        self._is_on = is_wanted and sys.stderr.isatty() and not in_the_way
        self._due = time.monotonic() + FIRST_S
        self._is_shown = False

    def show_rows(self, log: LogReader) -> None:
        """Show how far a log has been read."""
        self._show(f"{self._unit} {log.files_read} of {log.file_count}, {log.rows_read:,} records")

    def show_bytes(self, done: int, size: int) -> None:
        """Show how many bytes have been read."""
        shift, unit = _unit(size)
        self._show(f"read {done >> shift:,} of {size >> shift:,} {unit}")

    def show_share(self, done: int, size: int, unit: str) -> None:
        """Show how much has been read."""
        if unit == "bytes":
            self.show_bytes(done, size)
        else:
            self._show(f"read {done:,} of {size:,} {unit}")

    def show_simulated(self, done_ms: int, total_ms: int) -> None:
        """Show how much time has been simulated."""
        from kgroup.render.cell import rough_age

        self._show(f"simulated {rough_age(done_ms)} of {rough_age(total_ms)}")

    def show_copied(self, topic: LiveLog) -> None:
        """Show how much of a live topic has been fetched."""
        shift, unit = _unit(topic.bytes_copied)
        self._show(f"fetched {topic.bytes_copied >> shift:,} {unit}")

    def on_compile(self) -> None:
        """Print why the first run takes longer."""
        if sys.stderr.isatty():
            self.clear()
            warn("compiling the decoder for large inputs; this happens once")

    def finish(self) -> None:
        """Remove the line; print a note if the run was slow for a reason that can be fixed."""
        self.clear()
        compiled = sys.modules.get("kgroup.kernel.compiled")
        if compiled is not None and (where := compiled.why_unkept()):
            warn(
                f"note: compiled code cannot be stored in {where}; every run that decodes a large "
                "input compiles it again. Set XDG_CACHE_HOME to a writable folder."
            )

        sizes = sys.modules.get("kgroup.columnar.input_size")
        if sizes is not None and (why := sizes.why_missed()):
            warn(
                "note: a large input was read without compiled code, which would be many times "
                f"faster: {why}"
            )

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._write("")
            self._is_shown = False

    def _show(self, text: str) -> None:
        if self._is_on and time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_S
            self._write(text)
            self._is_shown = True

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _unit(size: int) -> tuple[int, str]:
    """Return the shift and the unit to show a number of bytes."""
    return (20, "MiB") if size >= 1 << 20 else (10, "KiB") if size >= 1 << 10 else (0, "bytes")
