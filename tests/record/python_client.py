"""kafka-python's own consumer, as a process of its own: joins, commits, polls until it is killed.

`python -m tests.record.python_client VERSION BOOTSTRAP GROUP CLIENT_ID TOPIC OFFSET` prints
`ready` once it owns partitions and has committed OFFSET for the first of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaConsumer, OffsetAndMetadata

from tests.broker.maven import die_with_parent, version_tuple
from tests.waiting import until


@contextmanager
def python_consumer(
    version: str, bootstrap: str, group: str, client_id: str, topic: str, offset: int
) -> Iterator[None]:
    """Run one consumer that is a settled member of its group; end it as a crash would."""
    arguments = [version, bootstrap, group, client_id, topic, str(offset)]
    command = [sys.executable, "-m", __name__, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=die_with_parent())
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise AssertionError(f"kafka-python did not join {group}")
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _main(
    version: str, bootstrap: str, group: str, client_id: str, topic: str, offset: str
) -> None:
    # kafka-python finds out a broker's version only where the broker can tell it.
    old = {"api_version": version_tuple(version)[:2]} if version_tuple(version) < (0, 10) else {}
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=client_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **old,
    )

    def is_assigned() -> bool:
        consumer.poll(timeout_ms=100)
        return bool(consumer.assignment())

    # One that joins before it knows of a topic may never be given its partitions.
    until(lambda: consumer.partitions_for_topic(topic))
    until(is_assigned)
    first = min(consumer.assignment())
    consumer.commit({first: OffsetAndMetadata(int(offset), "from Python", -1)})
    print("ready", flush=True)
    while True:
        consumer.poll(timeout_ms=100)


if __name__ == "__main__":
    _main(*sys.argv[1:])
