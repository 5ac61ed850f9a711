"""A consumer of librdkafka with a fault; told by one JSON object as its argument, see `Faults`.

It leaves its group on SIGTERM, and nothing else; killed, it has crashed, and stopped, it is frozen.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from threading import Event
from typing import Any, TypedDict

from confluent_kafka import Consumer, KafkaError


class Faults(TypedDict, total=False):
    """What an application does.

    Attributes:
        config: settings of its consumer.
        subscriptions: topics that it subscribes to in turn.
        turn_s: how long each subscription lasts.
        slow_s: how long it works on what it has read after each assignment, without polling.
        slow_times: how many times it is that slow; then it is quick, and prints so when assigned.
        commits: whether it commits what it has read.
    """

    config: dict[str, Any]
    subscriptions: list[list[str]]
    turn_s: float
    slow_s: float
    slow_times: int
    commits: bool


def run(faults: Faults) -> None:
    """Read until SIGTERM; return where another process has the instance id."""
    is_over, turn, slow = Event(), 0, faults.get("slow_times", 0)
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    consumer = Consumer(
        {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
        | faults["config"]
    )
    topics, assigned = faults["subscriptions"], Event()
    consumer.subscribe(topics[0], on_assign=lambda *_: assigned.set())
    turned = time.monotonic()
    while not is_over.is_set():
        message = consumer.poll(0.05)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            break
        if message is not None and error is None and faults.get("commits"):
            consumer.commit(message=message, asynchronous=True)
        if assigned.is_set() and "slow_s" in faults:
            assigned.clear()
            if slow > 0:
                time.sleep(faults["slow_s"])
            else:
                print("quick", flush=True)
            slow -= 1
        if len(topics) > 1 and time.monotonic() > turned + faults["turn_s"]:
            turned, turn = time.monotonic(), turn + 1
            consumer.subscribe(topics[turn % len(topics)], on_assign=lambda *_: assigned.set())
    consumer.close()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
