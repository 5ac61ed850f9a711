"""A member of a KIP-848 group by raw heartbeats, to stop a rebalance half way.

An ordinary client gives up partitions as soon as it is asked; this one says that it still owns
them. So the log keeps states that last only moments elsewhere.
"""

from __future__ import annotations

import base64
import time
import uuid
from typing import Any

from tests.broker.maven import version_tuple
from tests.record.wire import Wire, WireError


class RawConsumer:
    """One member; each `heartbeat` is one request."""

    def __init__(
        self,
        version: str,
        bootstrap: str,
        client_id: str,
        group: str,
        *,
        instance_id: str | None = None,
    ) -> None:
        self._wire = Wire(version, bootstrap, client_id)
        self._group = group
        self._instance_id = instance_id
        self.member_id = ""  # given by the broker before 4.0, by the member itself since
        if version_tuple(version) >= (4,):
            self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.epoch = 0
        self.owned: list[dict[str, Any]] = []

    def join(self, topics: list[str]) -> None:
        """Join, then heartbeat until the group has nothing more to say to this member."""
        self.heartbeat(
            rebalance_timeout_ms=300_000, subscribed_topic_names=topics, topic_partitions=[]
        )
        for _ in range(5):
            time.sleep(0.3)
            self.heartbeat(topic_partitions=self.owned)

    def heartbeat(self, **fields: Any) -> None:
        """Send one heartbeat and take over the epoch and, once only, a first assignment."""
        answer = self._wire.call(
            "ConsumerGroupHeartbeat",
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self._instance_id,
            **fields,
        )
        if answer["error_code"]:
            raise WireError(f"ConsumerGroupHeartbeat {self._group!r}: {answer}")
        self.member_id = answer["member_id"] or self.member_id
        self.epoch = answer["member_epoch"]
        if answer["assignment"] and not self.owned:
            self.owned = answer["assignment"]["topic_partitions"]

    def pause(self) -> None:
        """Leave as a static member does that will be back before its session times out."""
        self.epoch = -2
        self.heartbeat(topic_partitions=[])

    def close(self) -> None:
        """Close the connection; the member stays until its session times out."""
        self._wire.close()
