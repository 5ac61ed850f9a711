"""Write down what members send: `python -m tests.assignor.client.record_members`.

Each library encodes it itself, with its default client id: of a member that joins first (round 1),
and of the same with what it got, and a second one (round 2). The first one leads.
"""

from __future__ import annotations

import json
from typing import Any

from kgroup.assignor.client.kafka_python.library import KAFKA_PYTHON
from kgroup.assignor.client.kafkajs import KAFKAJS
from kgroup.assignor.client_library import ClientLibrary
from tests.assignor.client.members import TOPICS, path_of
from tests.assignor.client.oracle import kafka_python, kafkajs

__all__: list[str] = []

_UUIDS = ("1b89d8d5-2f53-4a3c-9a0e-0f6f0a6a3c11", "7e2f4b0a-61a7-4c55-8d2b-93f0c2d8b7a4")
"""The coordinator makes a member id of the client id and one."""


def _ask(
    library: ClientLibrary, version: str, strategy: str, members: list[Any], *options: str
) -> dict[str, Any]:
    topics = {name: {"partitions": count} for name, count in TOPICS.items()}
    specs = [{"id": "", "strategy": strategy, "topics": topics, "members": members}]
    if library is KAFKAJS:
        return kafkajs.run(version, specs, *options)[0]
    return kafka_python.run(version, strategy, specs, *options)[0]


def _rows(library: ClientLibrary, version: str, strategy: str) -> list[dict[str, Any]]:
    client_id = "kafkajs" if library is KAFKAJS else f"{library.name}-{version}"
    first, second = (
        {"member_id": f"{client_id}-{uuid}", "topics": list(TOPICS)} for uuid in _UUIDS
    )
    owned = _ask(library, version, strategy, [first])["assignment"][first["member_id"]]
    again = {**first, "owned": owned, "generation": 1}
    rows = []
    for number, members in enumerate(([first], [again, second]), 1):
        told = _ask(library, version, strategy, members, "bytes")
        if "error" in told:  # sticky of 2.0.2
            continue
        rows += [
            {
                "library": library.name,
                "version": version,
                "strategy": strategy,
                "client_id": client_id,
                "round": number,
                "member_id": each["member_id"],
                "subscription": told["subscriptions"][each["member_id"]],
                "assignment": told["assignments"].get(each["member_id"]),
            }
            for each in members
        ]
    return rows


def _record(library: ClientLibrary) -> None:
    rows = [
        row
        for version, strategies in library.strategies.items()
        for strategy in strategies
        for row in _rows(library, version, strategy)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path_of(library.name).write_text(text, "utf-8")


if __name__ == "__main__":
    _record(KAFKA_PYTHON)
    _record(KAFKAJS)
