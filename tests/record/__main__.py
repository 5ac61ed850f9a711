"""`python -m tests.record [name …]`: record the named scenarios again, or all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import product

from tests.record.damage import record_damaged
from tests.record.recording import DATA, SAMPLE, Recording, recording
from tests.record.scenario_codec import record_codec
from tests.record.scenario_compaction import record_compacted, record_compacted_wrappers
from tests.record.scenario_connect import record_connect
from tests.record.scenario_current import record_current
from tests.record.scenario_older import record_older
from tests.record.scenario_sample import record_sample
from tests.record.scenario_streams import record_streams
from tests.record.scenario_upgrade import record_upgrade
from tests.record.scenario_zookeeper import record_0_8_2_2
from tests.record.scenario_zookeeper_groups import record_zookeeper_groups
from tests.record.scenario_zookeeper_older import record_older_zookeeper_groups
from tests.record.scenario_zookeeper_sample import record_zookeeper_sample

CODECS = {
    "0.10.2.2": ("gzip", "snappy", "lz4"),
    "2.8.2": ("zstd",),
    "4.3.1": ("gzip", "snappy", "lz4", "zstd"),
}
"""What compresses; without compression these versions have scenarios of their own."""

SCENARIOS: dict[str, Callable[[Recording], None]] = {
    "sample": record_sample,
    "kafka-4.3.1": partial(record_current, version="4.3.1"),
    "kafka-4.1.1": partial(record_current, version="4.1.1"),
    "kafka-4.0.0": partial(record_current, version="4.0.0"),
    "kafka-3.9.2": partial(record_current, version="3.9.2"),
    "kafka-2.8.2": partial(record_older, version="2.8.2"),
    "kafka-1.1.1": partial(record_older, version="1.1.1"),
    "kafka-0.11.0.3": partial(record_older, version="0.11.0.3"),
    "kafka-0.10.2.2": partial(record_older, version="0.10.2.2"),
    "kafka-0.9.0.1": partial(record_older, version="0.9.0.1"),
    "kafka-0.8.2.2-none": partial(record_0_8_2_2, codec=0, name="none"),
    "kafka-0.8.2.2-gzip": partial(record_0_8_2_2, codec=1, name="gzip"),
    "kafka-0.8.2.2-snappy": partial(record_0_8_2_2, codec=2, name="snappy"),
    "kafka-0.8.2.2-lz4": partial(record_0_8_2_2, codec=3, name="lz4"),
    **{
        f"zookeeper-{version}": partial(record_older_zookeeper_groups, version=version)
        for version in ("0.8.0-beta1", "0.8.0", "0.8.1.1")
    },
    "zookeeper-0.8.2.2": record_zookeeper_groups,
    "sample-zookeeper": record_zookeeper_sample,
    "compacted-4.3.1": partial(record_compacted, version="4.3.1"),
    "compacted-3.9.2": partial(record_compacted, version="3.9.2"),
    "compacted-0.10.2.2-gzip": record_compacted_wrappers,
    "connect-4.3.1": partial(record_connect, version="4.3.1"),
    "streams-2.8.2": partial(record_streams, version="2.8.2"),
    "streams-3.9.2": partial(record_streams, version="3.9.2"),
    "upgraded-0.8-to-2.8": record_upgrade,
    **{
        f"kafka-{version}-{codec}": partial(record_codec, version=version, codec=codec)
        for version, codecs in CODECS.items()
        for codec in codecs
    },
    **{
        f"append-time-{version}-{codec}": partial(
            record_codec, version=version, codec=codec, timestamps="LogAppendTime"
        )
        for version, codec in product(("0.10.2.2", "4.3.1"), ("none", "lz4"))
    },
    "damaged": record_damaged,
}

TARGETS = {"sample": SAMPLE / "log-dir", "sample-zookeeper": SAMPLE / "zookeeper"}
"""Where a scenario's files go, if not beside its manifest."""


def main(names: list[str]) -> None:
    for name in names or SCENARIOS:
        print(f"recording {name}", flush=True)
        with recording(name, TARGETS.get(name, DATA / name)) as current:
            SCENARIOS[name](current)


if __name__ == "__main__":
    main(sys.argv[1:])
