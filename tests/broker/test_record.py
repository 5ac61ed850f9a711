"""The recorded data can be recorded again: one small scenario, compared with what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.record.recording import DATA, recording
from tests.record.scenario_codec import record_codec

NAME = "kafka-0.10.2.2-gzip"


def test_recording_again_gives_the_same_answers(tmp_path: Path) -> None:
    with recording(NAME, tmp_path / NAME, data=tmp_path) as current:
        record_codec(current, version="0.10.2.2", codec="gzip")
    again, kept = _manifest(tmp_path), _manifest(DATA)
    assert again["done"] == kept["done"]
    assert again["config"] == kept["config"]
    assert again["files"].keys() == kept["files"].keys()
    assert _lasting(again["answers"]) == _lasting(kept["answers"])


def _manifest(data: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((data / NAME / "manifest.json").read_text("utf-8"))
    return manifest


def _lasting(answers: dict[str, Any]) -> dict[str, Any]:
    """What the broker said, without what chance gives.

    That is member ids, which of two owns what, and how many rebalances were written on the way.
    """
    groups = {
        name: {
            **{key: value for key, value in group.items() if key != "members"},
            "members": sorted(member["client_id"] for member in group["members"]),
        }
        for name, group in answers["described"].items()
    }
    ends = {
        topic: offsets
        for topic, offsets in answers["log_end_offsets"].items()
        if topic != "__consumer_offsets"
    }
    return answers | {
        "described": groups,
        "topics": sorted(answers["topics"]),
        "log_end_offsets": ends,
    }
