"""The loop on which requests to brokers run."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from kgroup.source.broker.client import BrokerClient
from kgroup.source.deadline import Deadline


class Interrupted(Deadline):
    """Ctrl-C as a run begins."""

    def heard(self) -> None:
        raise KeyboardInterrupt


def test_no_coroutine_is_left_by_an_interrupt_before_its_start() -> None:
    """Python would warn of one that "was never awaited", on standard error."""
    made = []

    async def answer() -> int:
        return 1

    def ask() -> Coroutine[Any, Any, int]:
        made.append(1)
        return answer()

    with BrokerClient("127.0.0.1:1", Interrupted(1)) as client, pytest.raises(KeyboardInterrupt):
        client.run(ask)
    assert not made
    with BrokerClient("127.0.0.1:1", Deadline(1)) as client:
        assert client.run(ask) == 1
