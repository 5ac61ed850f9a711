"""``make bench``: Kafka's own tools and kgroup side by side, as whole processes.

Prints Markdown tables, with the machine, for `docs/performance.md`. One run takes about 40 minutes;
`--thorough` adds what takes hours: more segments, smaller groups, larger histories.
"""

from __future__ import annotations

import argparse
import sys

from bench import (
    assigning,
    decoding,
    growth,
    history,
    live,
    offsets,
    past,
    simulating,
    starting,
    zookeeper,
)
from bench.measure import KAFKA, machine

PARTS = [
    "starting",
    "decoding",
    "live",
    "past",
    "assigning",
    "zookeeper",
    "simulating",
    "offsets",
    "history",
    "growth",
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--thorough", action="store_true", help="every case of each part")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--size", type=int, default=1024, help="MiB a segment (default 1024)")
    parser.add_argument(
        "--variant", action="append", choices=[v.name for v in decoding.VARIANTS], help="segments"
    )
    options = parser.parse_args()
    print(f"Machine: {machine()}. Kafka {KAFKA}, Python {sys.version.split()[0]}.\n")
    if options.only in (None, "starting"):
        starting.bench(options.runs)
        print()
    if options.only in (None, "decoding"):
        variants = options.variant or [each.name for each in decoding.VARIANTS]
        decoding.bench(
            variants if options.thorough or options.variant else variants[:1],
            options.size << 20,
            options.runs,
        )
        print()
    if options.only in (None, "live"):
        live.bench(options.runs)
        print()
    if options.only in (None, "past"):
        past.bench(options.runs)
        print()
    if options.only in (None, "assigning"):
        assigning.bench(options.runs, thorough=options.thorough)
        print()
    if options.only in (None, "zookeeper"):
        zookeeper.bench(options.runs)
        print()
    if options.only in (None, "simulating"):
        simulating.bench(options.runs)
        print()
    if options.only in (None, "offsets"):
        offsets.bench(options.runs)
        print()
    if options.only in (None, "history"):
        history.bench(thorough=options.thorough)
        print()
    if options.only == "growth" or (options.only is None and options.thorough):
        growth.bench()


if __name__ == "__main__":
    main()
