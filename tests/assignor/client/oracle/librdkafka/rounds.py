"""What consumers of librdkafka send, and what their leader answers."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from tests.assignor.client.answers import Model
from tests.assignor.client.oracle.librdkafka.ask import library
from tests.assignor.client.oracle.librdkafka.broker import Broker
from tests.assignor.client.oracle.librdkafka.live_group import LiveGroup
from tests.assignor.client.oracle.librdkafka.native import load


async def rounds(
    model: Model, topics: Mapping[str, Any], first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[dict[str, dict[str, str]]]:
    """Return the `subscriptions` and `assignments` of each round, by member id, in base64.

    A member joins first (round 1) and then a second one (round 2); after what the first one gives
    up then, those of cooperative-sticky join once more (round 3). The first one leads in rounds 1
    and 2.
    """
    groups: dict[str, LiveGroup] = {}
    broker = Broker(groups)
    await broker.start()
    group = LiveGroup(load(library(model.version)), broker, groups, "group", model.strategy)
    group.topics = topics
    ids: list[str] = []
    seen = []
    for member in (first, second, None)[: 3 if model.strategy == "cooperative-sticky" else 2]:
        if member is not None:
            group.add(member)
            ids.append(member["member_id"])
        sent = await group.gather(ids)
        assigned = await group.assign()
        seen.append({"subscriptions": _in_base64(sent), "assignments": _in_base64(assigned)})
    for member_id in ids:
        await group.remove(member_id)
    return seen


def _in_base64(messages: Mapping[str, bytes]) -> dict[str, str]:
    return {member_id: b64encode(message).decode() for member_id, message in messages.items()}
