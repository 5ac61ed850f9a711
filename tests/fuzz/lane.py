"""All that is fuzzed."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz.answer import ANSWERS
from tests.fuzz.batch_lane import BATCHES
from tests.fuzz.large_file import FILES
from tests.fuzz.report import REPORTS
from tests.fuzz.run import LOGS, Lane
from tests.fuzz.settings import SETTINGS

LANES: Mapping[str, Lane] = {
    "settings": SETTINGS,
    "reports": REPORTS,
    "answers": ANSWERS,
    "files": FILES,
    "batches": BATCHES,
    "logs": LOGS,
}


def lane_of(data: bytes) -> Lane:
    """Tell whose an input is; what has no mark is a log."""
    return next(lane for lane in LANES.values() if data.startswith(lane.mark))
