"""The live screen of `kgroup top`, drawn by Textual.

`kgroup.render.top` says what the screen shows; here are the keys, the terminal, and a thread that
reads. Keys never wait for a reading: the thread hands over what it has read as a message.
"""

from __future__ import annotations

import locale
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kgroup.errors import KgroupError
from kgroup.operation.describe import GroupDescription
from kgroup.operation.top import Refresh, Top
from kgroup.render.top import SORTS, TopScreen, for_terminal

_LEAST_PAUSE_S = 0.2
"""Least time between two refreshes, if one takes longer than the interval."""
_SORT_KEYS = {name[0]: name for name in SORTS if name not in ("worst", "type")}


class Refreshed(Message):
    """All groups were read."""

    def __init__(self, refresh: Refresh) -> None:
        super().__init__()
        self.refresh = refresh


class Described(Message):
    """The group that is open was read."""

    def __init__(self, opened: GroupDescription | None) -> None:
        super().__init__()
        self.opened = opened


class Failed(Message):
    """A refresh failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


@dataclass(slots=True)
class Wish:
    """What the reader shall read; the screen sets it, one field at a time."""

    in_view: tuple[str, ...] = ()
    opened_id: str | None = None
    is_paused: bool = False


class Reader(threading.Thread):
    """Reads groups again and again, in a thread of its own.

    Args:
        top: the groups.
        renew: prepares the source for the next refresh; its argument says whether the last failed.
        interval_s: seconds from the start of one refresh to the next.
        tell: takes what was read; may be called from any thread.
    """

    def __init__(
        self,
        top: Top,
        renew: Callable[[bool], None],
        interval_s: float,
        tell: Callable[[Message], object],
    ) -> None:
        super().__init__(daemon=True)
        self.wish = Wish()
        self._top = top
        self._renew = renew
        self._interval_s = interval_s
        self._tell = tell
        self._wake = threading.Event()
        self._is_over = False

    def wake(self) -> None:
        """Look at the wish at once."""
        self._wake.set()

    def stop(self) -> bool:
        """Stop after the current refresh; return whether it is over already."""
        self._is_over = True
        self.wake()
        self.join(_LEAST_PAUSE_S)
        return not self.is_alive()

    def run(self) -> None:
        """Read until `stop`."""
        due = time.monotonic()
        described: str | None = None
        has_failed: bool | None = None
        while not self._is_over:
            self._wake.clear()
            opened_id = self.wish.opened_id
            is_due = time.monotonic() >= due and not self.wish.is_paused
            if is_due or (opened_id is not None and opened_id != described):
                begun = time.monotonic()
                try:
                    if has_failed is not None:
                        self._renew(has_failed)
                    if is_due:
                        self._tell(Refreshed(self._top.refresh(self.wish.in_view, opened_id)))
                    elif opened_id is not None:
                        self._tell(Described(self._top.describe(opened_id)))
                    has_failed = False
                except Exception as error:
                    has_failed = True
                    self._tell(Failed(error))
                described = opened_id
                if is_due:
                    due = max(begun + self._interval_s, time.monotonic() + _LEAST_PAUSE_S)
            else:
                paused = self.wish.is_paused
                self._wake.wait(None if paused else max(due - time.monotonic(), 0))


class _StdoutDriver(LinuxDriver):
    """Writes to standard output, as all commands do; Textual writes to standard error."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        assert sys.__stdout__ is not None
        self._file = sys.__stdout__


class _Canvas(Widget):
    """The whole screen: the lines of `TopScreen`."""

    DEFAULT_CSS = "_Canvas { width: 100%; height: 100%; background: ansi_default; }"

    def __init__(self, screen: TopScreen) -> None:
        super().__init__()
        self._top = screen
        self._strips: list[Strip] = []
        # Python may write UTF-8 though the locale is another, or the other way round.
        self._encodings = (locale.getencoding(), sys.stdout.encoding)

    def draw(self) -> None:
        """Draw the screen as it is now."""
        width, height = self.size
        lines = self._top.lines(width, height, time.time_ns() // 1_000_000)
        self._strips = [
            Strip(
                [
                    Segment(self._written(text), Style.parse(style) if style else Style())
                    for text, style in line
                ]
            ).adjust_cell_length(width)
            for line in lines
        ]
        self.refresh()

    def _written(self, text: str) -> str:
        for encoding in self._encodings:
            text = for_terminal(text, encoding)
        return text

    def render_line(self, y: int) -> Strip:
        """Return a line; see `Widget`."""
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)

    def on_resize(self, event: Resize) -> None:
        """Draw in the new size."""
        self.draw()


class TopApp(App[Exception]):
    """The application; its result is the error that ended it, if one did.

    Args:
        screen: what is shown.
        top: the groups.
        renew: see `Reader`.
    """

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    CSS = "Screen { background: ansi_default; color: ansi_default; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", priority=True),
        Binding("ctrl+z", "suspend_process", priority=True),
    ]

    def __init__(self, screen: TopScreen, top: Top, renew: Callable[[bool], None]) -> None:
        super().__init__(driver_class=_StdoutDriver, ansi_color=True)
        self.top = screen
        self.canvas = _Canvas(screen)
        self.reader = Reader(top, renew, screen.interval_s, self.post_message)

    def compose(self) -> ComposeResult:
        """Yield the only widget."""
        yield self.canvas

    def on_mount(self) -> None:
        """Start to read."""
        self.set_interval(1, self.draw)
        self.reader.start()

    def draw(self) -> None:
        """Draw the screen, and tell the reader which groups are on it."""
        if not self.reader.wish.is_paused:  # ages would be those of another time
            self.reader.wish.in_view = tuple(self.top.in_view(self.size.height))
        self.canvas.draw()

    # --- what was read ---

    def on_refreshed(self, message: Refreshed) -> None:
        """Show all groups."""
        top, refresh = self.top, message.refresh
        top.rows, top.read_ms = refresh.rows, refresh.time_ms
        top.problems, top.notes = refresh.problems, refresh.notes
        top.trouble, top.failing_since_ms = None, None
        if top.opened_id is not None and refresh.opened is not None:
            top.opened = refresh.opened
        top.arrange()
        self.draw()

    def on_described(self, message: Described) -> None:
        """Show the group that is open."""
        self.top.opened = message.opened
        self.draw()

    def on_failed(self, message: Failed) -> None:
        """Say that the numbers are old; end if there are none, or by a bug."""
        is_expected = isinstance(message.error, (KgroupError, OSError))
        if self.top.read_ms is None or not is_expected:
            self.exit(message.error)
            return
        self.top.trouble = str(message.error)
        self.top.failing_since_ms = self.top.failing_since_ms or time.time_ns() // 1_000_000
        self.draw()

    # --- keys ---

    def on_key(self, event: Key) -> None:
        """Do what a key stands for."""
        event.stop()
        top = self.top
        if top.is_typing:
            self._type(event)
        elif event.key == "escape" or (event.key == "enter" and (top.page or top.opened_id)):
            self._go_back()
        elif event.character == "q":
            self.exit()
            return
        elif event.character in ("?", "h"):
            self._turn_to("" if top.page == "help" else "help")
        elif event.character == "e":
            self._turn_to("" if top.page == "problems" else "problems")
        elif event.key == "space" or event.character == "p":
            self._pause()
        elif top.page or top.opened_id is not None:
            top.first_line += self._steps(event) or 0
        else:
            self._list_key(event)
        self.draw()

    def _steps(self, event: Key) -> int | None:
        """Return how many lines a key moves by; None for other keys."""
        page = max(self.size.height - 4, 1)
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page}
        return (steps | {"home": -(1 << 30), "end": 1 << 30}).get(event.key)

    def _list_key(self, event: Key) -> None:
        top, character = self.top, event.character or ""
        if (steps := self._steps(event)) is not None:
            top.move(top.cursor + steps)
        elif event.key == "enter" and top.shown:
            self._open(top.shown[top.cursor].group.group_id)
        elif character == "/":
            top.is_typing = True
        elif character in _SORT_KEYS:
            self._sort_by(_SORT_KEYS[character])
        elif character in ("<", ">"):
            names = [*SORTS]
            step = 1 if character == ">" else -1
            self._sort_by(names[(names.index(top.sort) + step) % len(names)])
        elif character == "R":
            top.is_reversed = not top.is_reversed
            top.arrange()

    def _sort_by(self, name: str) -> None:
        self.top.sort, self.top.is_reversed = name, False
        self.top.arrange()

    def _type(self, event: Key) -> None:
        """Change the filter; the list follows at once."""
        top = self.top
        if event.key == "enter":
            top.is_typing = False
        elif event.key == "escape":
            top.is_typing, top.text_filter = False, ""
        elif event.key == "backspace":
            top.text_filter = top.text_filter[:-1]
        elif event.is_printable and event.character:
            top.text_filter += event.character
        elif (steps := self._steps(event)) is not None:
            top.move(top.cursor + steps)
        top.arrange()

    def _turn_to(self, page: str) -> None:
        self.top.page, self.top.first_line = page, 0

    def _open(self, group_id: str) -> None:
        top = self.top
        top.opened_id, top.opened, top.first_line = group_id, None, 0
        self.reader.wish.opened_id = group_id
        self.reader.wake()

    def _go_back(self) -> None:
        top = self.top
        if top.page:
            self._turn_to("")
        elif top.opened_id is not None:
            top.opened_id, top.opened, top.first_line = None, None, 0
            self.reader.wish.opened_id = None
        else:
            top.text_filter = ""
            top.arrange()

    def _pause(self) -> None:
        is_paused = self.top.paused_ms is None
        self.top.paused_ms = time.time_ns() // 1_000_000 if is_paused else None
        self.reader.wish.is_paused = is_paused
        self.reader.wake()


def run_screen(screen: TopScreen, top: Top, renew: Callable[[bool], None]) -> bool:
    """Show the screen until the user quits; return whether the reader has stopped.

    Raises:
        Exception: the first refresh failed, or a later one by a bug.
    """
    for name in ("COLUMNS", "LINES"):  # Textual would take them for the size, even after a resize
        os.environ.pop(name, None)
    app = TopApp(screen, top, renew)
    error = app.run(mouse=False)
    is_over = app.reader.stop() if app.reader.ident is not None else True
    if error is not None:
        raise error
    return is_over
