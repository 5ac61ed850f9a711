"""How long a command waits for servers."""

from __future__ import annotations

from time import monotonic


class Deadline:
    """Time limit of a command: a time after its start, or after the last response.

    Attributes:
        patience_s: seconds to wait for one response. It is less than the total, so that a server
            that does not answer leaves time for the others: half of the time allowed without a
            response, or a third of the time limit of a whole command.
    """

    def __init__(self, timeout_s: float, *, of_silence: bool = False) -> None:
        self.timeout_s = timeout_s
        self.patience_s = timeout_s / (2 if of_silence else 3)
        self._of_silence = of_silence
        self._end = monotonic() + timeout_s
        self._waits: dict[str, float] = {}

    def restart(self) -> None:
        """Restart the time limit, after a wait that the user requested."""
        self._end = monotonic() + self.timeout_s
        self._waits.clear()

    def waited(self, what: str, seconds: float) -> None:
        """Record time spent waiting, and for what."""
        self._waits[what] = self._waits.get(what, 0.0) + seconds

    @property
    def longest_wait(self) -> str:
        """The end of a sentence: what the longest wait was for; empty if it was short."""
        what, seconds = max(self._waits.items(), key=lambda item: item[1], default=("", 0.0))
        return f", {seconds:.1f} s of it waiting for {what}" if seconds > self.timeout_s / 5 else ""

    @property
    def left_s(self) -> float:
        """The remaining seconds; 0 when the time is up."""
        return max(0.0, self._end - monotonic())

    def heard(self) -> None:
        """Record that a broker has answered a request.

        Accepting a connection does not count: a broker that does so, and disconnects on each
        request, would be asked forever.
        """
        if self._of_silence:
            self._end = monotonic() + self.timeout_s
