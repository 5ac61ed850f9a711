"""How long a command waits for servers."""

from __future__ import annotations

from time import monotonic


class Deadline:
    """When a command stops waiting: some time after its start, or after it last heard something.

    Attributes:
        patience_s: how long to wait for one answer: less than there is, so that one silent server
            leaves time for the others. It is half of the silence that is allowed, or a third of
            the time of a command that is bounded as a whole.
    """

    def __init__(self, timeout_s: float, *, of_silence: bool = False) -> None:
        self.timeout_s = timeout_s
        self.patience_s = timeout_s / (2 if of_silence else 3)
        self._of_silence = of_silence
        self._end = monotonic() + timeout_s
        self._waits: dict[str, float] = {}

    def restart(self) -> None:
        """Start the time anew, after a wait that the user asked for."""
        self._end = monotonic() + self.timeout_s
        self._waits.clear()

    def waited(self, what: str, seconds: float) -> None:
        """Note what time was spent waiting for."""
        self._waits[what] = self._waits.get(what, 0.0) + seconds

    @property
    def longest_wait(self) -> str:
        """The end of a sentence: what most of the time was spent waiting for; nothing if short."""
        what, seconds = max(self._waits.items(), key=lambda item: item[1], default=("", 0.0))
        return f", {seconds:.1f} s of it waiting for {what}" if seconds > self.timeout_s / 5 else ""

    @property
    def left_s(self) -> float:
        """Seconds left; 0 where the time is over."""
        return max(0.0, self._end - monotonic())

    def heard(self) -> None:
        """Note that a broker has answered a question.

        That it lets itself be connected to does not count: one that does, and hangs up whenever it
        is asked something, would be asked for ever.
        """
        if self._of_silence:
            self._end = monotonic() + self.timeout_s
