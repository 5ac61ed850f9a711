"""Write down what consumers of librdkafka send, and what their leader answers.

    python -m tests.assignor.client.oracle.librdkafka.record_members

A member joins first (round 1) and then a second one (round 2); after what the first one gives up
then, those of cooperative-sticky join once more (round 3). The first one leads in rounds 1 and 2.
"""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from tests.assignor.client.answers import MODELS, Model
from tests.assignor.client.oracle.librdkafka.ask import library
from tests.assignor.client.oracle.librdkafka.broker import Broker
from tests.assignor.client.oracle.librdkafka.live_group import LiveGroup
from tests.assignor.client.oracle.librdkafka.native import load

__all__: list[str] = []

_FILE = Path(__file__).parents[4] / "data" / "clients" / "members-librdkafka.jsonl"
_TOPICS = {"zoo": 3, "ant": 4, "Mole": 2}
"""Partitions, in the order in which the members subscribe."""
_CLIENT_ID = "rdkafka"  # the default; the coordinator makes a member id of it and a UUID
_UUIDS = ("1b89d8d5-2f53-4a3c-9a0e-0f6f0a6a3c11", "7e2f4b0a-61a7-4c55-8d2b-93f0c2d8b7a4")


async def _rows(model: Model) -> list[dict[str, Any]]:
    groups: dict[str, LiveGroup] = {}
    broker = Broker(groups)
    await broker.start()
    group = LiveGroup(load(library(model.version)), broker, groups, "group", model.strategy)
    group.topics = {name: {"partitions": count} for name, count in _TOPICS.items()}
    ids = [f"{_CLIENT_ID}-{uuid}" for uuid in _UUIDS]
    first, second = ({"member_id": each, "topics": list(_TOPICS)} for each in ids)
    group.add(first)
    rows = [row async for row in _round(model, group, ids[:1])]
    group.add(second)
    for _ in range(2 if model.strategy == "cooperative-sticky" else 1):
        rows += [row async for row in _round(model, group, ids)]
    return rows


async def _round(
    model: Model, group: LiveGroup, ids: Sequence[str]
) -> AsyncIterator[dict[str, Any]]:
    sent = await group.gather(ids)
    assigned = await group.assign()
    for member_id in ids:
        yield {
            "library": model.library,
            "version": model.version,
            "strategy": model.strategy,
            "client_id": _CLIENT_ID,
            "round": group.generation,
            "member_id": member_id,
            "subscription": b64encode(sent[member_id]).decode(),
            "assignment": b64encode(assigned[member_id]).decode(),
        }


async def _record() -> None:
    models = [model for model in MODELS if model.library == "librdkafka"]
    rows = [row for model in models for row in await _rows(model)]
    _FILE.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    os._exit(0)  # with all those threads


if __name__ == "__main__":
    asyncio.run(_record())
