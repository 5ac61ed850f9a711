"""Write down what members in Go send: `python -m tests.assignor.client.record_go_members`.

Each library encodes it itself, with its default client id: of a member that joins first (round 1),
and of the same with what it got, and a second one (round 2). The first one leads.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from kgroup.assignor.client.kafka_go import KAFKA_GO
from kgroup.assignor.client.sarama.library import SARAMA
from kgroup.assignor.client_library import ClientLibrary
from tests.assignor.client.members import TOPICS, path_of
from tests.assignor.client.oracle import kafka_go, sarama
from tests.assignor.client.oracle.go_oracle import GoLibrary

__all__: list[str] = []

_UUIDS = ("1b89d8d5-2f53-4a3c-9a0e-0f6f0a6a3c11", "7e2f4b0a-61a7-4c55-8d2b-93f0c2d8b7a4")
"""The coordinator makes a member id of the client id and one."""
_CLIENT_IDS = {"sarama": "sarama", "kafka-go": "till@shop (github.com/segmentio/kafka-go)"}
"""That of kafka-go names the program and its host."""
_RACKS = ("rack-a", None)


def _rows(library: ClientLibrary, oracle: GoLibrary, version: str, strategy: str) -> list[Any]:
    client_id = _CLIENT_IDS[library.name]
    first, second = (
        {"member_id": f"{client_id}-{uuid}", "topics": list(TOPICS), "rack": rack}
        for uuid, rack in zip(_UUIDS, _RACKS, strict=True)
    )
    rows: list[Any] = []
    members: list[dict[str, Any]] = [first]
    for number in (1, 2):
        topics = {name: {"partitions": count} for name, count in TOPICS.items()}
        spec = {"id": "", "strategy": strategy, "topics": topics, "members": members}
        (told,) = oracle.ask([spec], version, "-bytes", order="ascending")
        rows += [
            {
                "library": library.name,
                "version": version,
                "strategy": strategy,
                "client_id": client_id,
                "round": number,
                "member_id": each["member_id"],
                "rack": each["rack"],
                "subscription": _in_base64(told["subscriptions"][each["member_id"]]),
                "assignment": _in_base64(told["assignments"][each["member_id"]]),
            }
            for each in members
        ]
        owned = told["assignment"][first["member_id"]]
        members = [{**first, "owned": owned, "generation": 1}, second]
    return rows


def _in_base64(digits: str) -> str:
    return b64encode(bytes.fromhex(digits)).decode()


def _record(library: ClientLibrary, oracle: GoLibrary) -> None:
    rows = [
        row
        for version, strategies in library.strategies.items()
        for strategy in strategies
        for row in _rows(library, oracle, version, strategy)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path_of(library.name).write_text(text, "utf-8")


if __name__ == "__main__":
    _record(SARAMA, sarama.SARAMA)
    _record(KAFKA_GO, kafka_go.KAFKA_GO)
