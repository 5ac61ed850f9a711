"""`python -m tests.record [name …]`: record the named scenarios again, or all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from tests.record.recording import DATA, SAMPLE, Recording, recording
from tests.record.scenario_current import record_4_3_1
from tests.record.scenario_older import record_older
from tests.record.scenario_sample import record_sample

SCENARIOS: dict[str, Callable[[Recording], None]] = {
    "sample": record_sample,
    "kafka-4.3.1": record_4_3_1,
    "kafka-2.8.2": partial(record_older, version="2.8.2"),
    "kafka-1.1.1": partial(record_older, version="1.1.1"),
    "kafka-0.11.0.3": partial(record_older, version="0.11.0.3"),
    "kafka-0.10.2.2": partial(record_older, version="0.10.2.2"),
    "kafka-0.9.0.1": partial(record_older, version="0.9.0.1"),
}

TARGETS = {"sample": SAMPLE / "log-dir"}
"""Where a scenario's files go, if not beside its manifest."""


def main(names: list[str]) -> None:
    for name in names or SCENARIOS:
        print(f"recording {name}", flush=True)
        with recording(name, TARGETS.get(name, DATA / name)) as current:
            SCENARIOS[name](current)


if __name__ == "__main__":
    main(sys.argv[1:])
