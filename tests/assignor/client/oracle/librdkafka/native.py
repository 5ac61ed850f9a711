"""As much of librdkafka's C interface as a consumer needs that never reads a record."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from pathlib import Path

_CONSUMER = 1  # RD_KAFKA_CONSUMER
_ANY_PARTITION = -1  # RD_KAFKA_PARTITION_UA
_WITHOUT_CLOSE = 8  # RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE


def load(path: Path) -> ctypes.CDLL:
    """Load the library of a wheel, or any other."""
    library = ctypes.CDLL(str(path))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("rd_kafka_version_str", text, []),
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", ctypes.c_int, [pointer, text, text, text, ctypes.c_size_t]),
        ("rd_kafka_new", pointer, [ctypes.c_int, pointer, text, ctypes.c_size_t]),
        ("rd_kafka_subscribe", ctypes.c_int, [pointer, pointer]),
        ("rd_kafka_topic_partition_list_new", pointer, [ctypes.c_int]),
        ("rd_kafka_topic_partition_list_add", pointer, [pointer, text, ctypes.c_int32]),
        ("rd_kafka_topic_partition_list_destroy", None, [pointer]),
        ("rd_kafka_destroy_flags", None, [pointer, ctypes.c_int]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Consumer:
    """One member of a group. It joins by itself; nothing needs to be polled.

    Args:
        library: that was loaded.
        settings: of the consumer.

    Raises:
        ValueError: the library does not take them.
    """

    def __init__(self, library: ctypes.CDLL, settings: Mapping[str, str]) -> None:
        self._library = library
        error = ctypes.create_string_buffer(512)
        conf = library.rd_kafka_conf_new()
        for name, value in settings.items():
            if library.rd_kafka_conf_set(conf, name.encode(), value.encode(), error, 512):
                raise ValueError(error.value.decode())
        self._handle = library.rd_kafka_new(_CONSUMER, conf, error, 512)
        if not self._handle:
            raise ValueError(error.value.decode())

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe; what was subscribed before is forgotten."""
        names = self._library.rd_kafka_topic_partition_list_new(1)
        for topic in topics:
            self._library.rd_kafka_topic_partition_list_add(names, topic.encode(), _ANY_PARTITION)
        failure = self._library.rd_kafka_subscribe(self._handle, names)
        self._library.rd_kafka_topic_partition_list_destroy(names)
        if failure:
            raise ValueError(f"rd_kafka_subscribe gives error {failure} for {topics}")

    def destroy(self) -> None:
        """Go without leaving the group."""
        self._library.rd_kafka_destroy_flags(self._handle, _WITHOUT_CLOSE)
