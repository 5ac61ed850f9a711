"""A live split can be sent to another process, with all that it needs to connect."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector, LocalFileSystem

from kgroup.history.build.task import BuildTask, SplitWork, run_task
from kgroup.history.input.remote import first_line
from kgroup.history.input.segment_source import find_sources
from kgroup.history.input.split import FileRange, OffsetRange, Split
from kgroup.history.warehouse.coverage import Coverage
from kgroup.source.config.client_config import client_config
from tests.columnar.log_writer import batch
from tests.operation.log_files import commit

LOGIN = "org.apache.kafka.common.security.{} required {};"
PASSWORD = 'username="kgroup" password="swordfish"'
SETTINGS = {
    "PLAIN": LOGIN.format("plain.PlainLoginModule", PASSWORD),
    "SCRAM-SHA-512": LOGIN.format("scram.ScramLoginModule", PASSWORD),
    "OAUTHBEARER": LOGIN.format(
        "oauthbearer.OAuthBearerLoginModule", 'unsecuredLoginStringClaim_sub="kgroup"'
    ),
}


def test_what_pyarrow_says_has_no_number(tmp_path: Path) -> None:
    """Python puts "[Errno 2]" before what pyarrow says of a folder that is not there."""
    with pytest.raises(FileNotFoundError) as caught:
        LocalFileSystem().get_file_info(FileSelector(str(tmp_path / "none")))
    assert first_line(caught.value).startswith("Cannot list directory")


def test_a_place_that_only_others_can_reach(tmp_path: Path) -> None:
    """A process that lacks a file system's library, say: that split is not read, others are."""
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch([commit(0, "g"), commit(1, "g")]))
    (segment,) = find_sources([str(tmp_path)], "c").segments
    (split,) = segment.splits()
    elsewhere = replace(split, location=FileRange("/x.log", 0, 9, "xyz://somewhere/x.log"))
    works = tuple(SplitWork(each, Coverage()) for each in (elsewhere, split))
    failed, read = run_task(BuildTask(str(tmp_path / "tables"), "c", 1, works)).reads
    assert "xyz://somewhere/x.log: expected" in (failed.error or "")
    assert (failed.coverage.count, read.coverage.count, read.error) == (0, 2, None)


@pytest.mark.parametrize("mechanism", SETTINGS)
def test_settings_travel_and_do_not_show(mechanism: str) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": SETTINGS[mechanism],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
    }
    config = client_config(
        environment={},
        bootstrap_server="kafka-1:9093",
        overrides=[f"{key}={value}" for key, value in settings.items()],
    )
    split = Split("c", 3, OffsetRange(5, 9, config), "__consumer_offsets-3", 5)
    assert "swordfish" not in repr(split)
    found = pickle.loads(pickle.dumps(split))
    assert isinstance(found.location, OffsetRange)
    assert found == split
    sasl = found.location.config.sasl
    assert sasl is not None
    assert config.sasl is not None
    if mechanism != "OAUTHBEARER":
        assert sasl.kafka_options()["sasl_plain_password"] == "swordfish"
        assert str(sasl.kafka_options()["sasl_plain_password"]) == "[hidden]"
