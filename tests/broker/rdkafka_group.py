"""Consumers of librdkafka, each in a thread that polls all the time."""

from __future__ import annotations

from threading import Event, Thread

from confluent_kafka import Consumer

from tests.waiting import until

__all__ = ["RdkafkaGroup"]


class RdkafkaGroup:
    """A group of them.

    Args:
        bootstrap: where the broker is.
        group: their group.
        topic: that they read, and
        partitions: that it has.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        self._config = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
        self._topic = topic
        self._partitions = partitions
        self._running: dict[str, tuple[Event, Thread]] = {}
        self._owned: dict[str, int] = {}

    def start(self, names: list[str], strategies: str) -> None:
        """Start consumers, and wait until they own all partitions.

        Raises:
            KafkaException: the library does not take the strategies.
        """
        for name in names:
            consumer = Consumer(
                self._config
                | {"client.id": name, "partition.assignment.strategy": strategies}
                | {"auto.offset.reset": "earliest"}
            )
            consumer.subscribe([self._topic])
            stop = Event()
            thread = Thread(target=self._poll, args=(name, consumer, stop), daemon=True)
            self._running[name] = stop, thread
            thread.start()
        until(lambda: sum(self._owned.values()) == self._partitions)

    def stop_all(self) -> None:
        """Stop all consumers in order."""
        for stop, thread in self._running.values():
            stop.set()
            thread.join()
        self._running.clear()
        self._owned.clear()

    def _poll(self, name: str, consumer: Consumer, stop: Event) -> None:
        while not stop.is_set():
            consumer.poll(0.1)
            # Asked from another thread the library may wait for ever.
            self._owned[name] = len(consumer.assignment())
        consumer.close()
