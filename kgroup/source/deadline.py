"""How long a command waits for servers."""

from time import monotonic

__all__ = ["Deadline"]


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

    def restart(self) -> None:
        """Start the time anew, after a wait that the user asked for."""
        self._end = monotonic() + self.timeout_s

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
