"""Metrics in Prometheus' text format, for node-exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

Samples = Iterable[tuple[Mapping[str, str], float | None]]
"""Labels and value of each sample of a metric; unknown values have no line."""


def metric(name: str, help_text: str, samples: Samples, *, is_kept: bool = False) -> Iterator[str]:
    """Yield the lines of a metric; none if it has no samples, unless it is kept.

    Args:
        name: name without the prefix ``kgroup_``.
        help_text: what it is.
        samples: its samples.
        is_kept: whether its description is written even without samples.
    """
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known and not is_kept:
        return
    yield f"# HELP kgroup_{name} {help_text}\n# TYPE kgroup_{name} gauge\n"
    for labels, value in known:
        pairs = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
        shown = f"{value:.3f}" if isinstance(value, float) else str(value)
        yield f"kgroup_{name}{f'{{{pairs}}}' if pairs else ''} {shown}\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
