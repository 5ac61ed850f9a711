"""The servers themselves: that they run, keep data, and end."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from tests.broker import maven, process
from tests.broker.maven import JavaError, class_archive, compile_java, run_java, version_tuple
from tests.broker.process import ServerError
from tests.broker.servers import KAFKA_VERSIONS, Broker, broker, cluster, zookeeper
from tests.examples import in_depth
from tests.waiting import until


def produce(server: Broker, topic: str, value: bytes) -> int:
    """Return the offset of the record."""
    producer = KafkaProducer(acks="all", **server.client_options)
    try:
        offset: int = producer.send(topic, value, partition=0).get(timeout=30).offset
        return offset
    finally:
        producer.close()


def consume(server: Broker, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        auto_offset_reset="earliest", consumer_timeout_ms=120_000, **server.client_options
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return [record.value for record in islice(consumer, count)]
    finally:
        consumer.close()


def commit(server: Broker, group: str, topic: str, offset: int) -> None:
    consumer = KafkaConsumer(group_id=group, enable_auto_commit=False, **server.client_options)
    try:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.commit({where: OffsetAndMetadata(offset, f"note of {group}", -1)})
    finally:
        consumer.close()


def committed(server: Broker, group: str, topic: str) -> tuple[int, str] | None:
    consumer = KafkaConsumer(group_id=group, enable_auto_commit=False, **server.client_options)
    try:
        found = consumer.committed(TopicPartition(topic, 0), metadata=True)
        return None if found is None else (found.offset, found.metadata)
    finally:
        consumer.close()


def offsets_log(server: Broker) -> bytes:
    """All of `__consumer_offsets` on the broker's disk."""
    return b"".join(
        file.read_bytes() for file in sorted(server.log_dir.glob("__consumer_offsets-*/*.log"))
    )


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("every_broker", in_depth(KAFKA_VERSIONS, ("1.1.1",)), indirect=True)
def test_every_version_serves_records_and_offsets(every_broker: Broker) -> None:
    every_broker.create_topic("records", partitions=2)
    assert produce(every_broker, "records", b"first") == 0
    assert produce(every_broker, "records", b"second") == 1
    assert consume(every_broker, "records", 2) == [b"first", b"second"]

    assert committed(every_broker, "readers", "records") is None
    commit(every_broker, "readers", "records", 2)
    assert committed(every_broker, "readers", "records") == (2, "note of readers")

    partitions = sorted(folder.name for folder in every_broker.log_dir.glob("__consumer_offsets-*"))
    assert partitions == [f"__consumer_offsets-{number}" for number in range(4)]
    log = offsets_log(every_broker)
    assert b"note of readers" in log
    number = version_tuple(every_broker.version)
    assert log[16] == (0 if number < (0, 10) else 1 if number < (0, 11) else 2)  # magic byte


def test_one_data_directory_is_upgraded(tmp_path: Path) -> None:
    magics = in_depth(
        {"0.9.0.1": 0, "0.10.2.2": 1, "0.11.0.3": 2, "1.1.1": 2, "2.8.2": 2, "3.9.2": 2},
        {"0.10.2.2": 1, "3.9.2": 2},
    )
    with zookeeper(tmp_path) as keeper:
        for number, version in enumerate(magics):
            with broker(version, tmp_path, zookeeper=keeper) as server:
                if number == 0:
                    server.create_topic("kept")
                else:
                    assert committed(server, "readers", "kept") == (number, "note of readers")
                assert produce(server, "kept", version.encode()) == number
                commit(server, "readers", "kept", number + 1)
                if number + 1 == len(magics):
                    assert consume(server, "kept", len(magics)) == [
                        magic.encode() for magic in magics
                    ]
    (segment,) = (tmp_path / "kafka-1" / "data" / "kept-0").glob("*.log")
    data = segment.read_bytes()
    found, position = [], 0
    while position < len(data):
        found.append(data[position + 16])
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    assert found == [*magics.values()]


@pytest.mark.parametrize("version", in_depth(["1.1.1", "4.3.1"], ["1.1.1"]))
def test_killed_broker_restarts_with_its_data(version: str, tmp_path: Path) -> None:
    with broker(version, tmp_path) as server:
        server.create_topic("records")
        produce(server, "records", b"kept")
        commit(server, "readers", "records", 1)
        killed, port = server.pid, server.port
        assert killed is not None
        server.kill()
        assert not is_alive(killed)
        assert server.pid is None

        server.restart()
        assert server.port == port
        assert server.pid not in (killed, None)
        assert consume(server, "records", 1) == [b"kept"]
        assert committed(server, "readers", "records") == (1, "note of readers")


@pytest.mark.parametrize("version", in_depth(["0.8.2.2", "4.3.1"], ["4.3.1"]))
def test_three_brokers_form_a_cluster(version: str, tmp_path: Path) -> None:
    racks = [] if version == "0.8.2.2" else ["a", "b", "c"]
    config = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "3"}
    with cluster(version, 3, tmp_path, config=config, racks=racks) as brokers:
        assert [server.broker_id for server in brokers] == [1, 2, 3]
        brokers[0].create_topic("records", partitions=3, replication=3)
        produce(brokers[0], "records", b"copied")
        commit(brokers[0], "readers", "records", 1)
        brokers[0].kill()
        assert consume(brokers[1], "records", 1) == [b"copied"]
        brokers[0].restart()
        brokers[0].await_cluster(3)
        until(lambda: all(b"note of readers" in offsets_log(server) for server in brokers))
        pids = [server.pid for server in brokers]
    assert not any(pid is None or is_alive(pid) for pid in pids)


def compact(text: str) -> bytes:
    """Return a compact string: its length + 1 as a varint of one byte, and its bytes."""
    return bytes([len(text) + 1]) + text.encode()


def join(server: Broker, api_key: int, version: int, body: bytes) -> int:
    """Send one heartbeat and return the error code.

    Request header 2: api key, version, correlation id, client id, no tags. Response header 1:
    correlation id, no tags; then int32 throttle time, int16 error code.
    """
    header = struct.pack(">hhih4sb", api_key, version, 7, 4, b"test", 0)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        answer = connection.makefile("rb").read(15)
    correlation_id, _, _, error_code = struct.unpack_from(">ibih", answer, 4)
    assert correlation_id == 7
    return int(error_code)


KINDS = {
    "3.9.2": {"consumer": 0},
    "4.0.0": {"consumer": 1, "share": 0},
    "4.1.1": {"consumer": 1, "share": 1, "streams": 0},
    "4.3.1": {"consumer": 1, "share": 1, "streams": 0},
}
"""Kinds of groups that versions have, and the version of their heartbeat."""


@pytest.mark.parametrize("version", in_depth([*KINDS], ["4.1.1"]))
def test_new_kinds_of_groups_are_enabled(version: str, tmp_path: Path) -> None:
    kinds = KINDS[version]
    config = {"group.coordinator.rebalance.protocols": "classic,consumer"}
    with broker(version, tmp_path, config=config if version == "3.9.2" else None) as server:
        server.create_topic("records")
        commit(server, "opener", "records", 0)  # makes __consumer_offsets
        member = compact("AAAAAAAAAAAAAAAAAAAAAA") + struct.pack(">i", 0)
        topics = b"\x02" + compact("records")
        bodies = {
            # instance, rack, rebalance timeout, topics, (regex,) assignor, owned partitions
            "consumer": member + b"\0\0" + struct.pack(">i", 60_000) + topics
            + (b"\0" if kinds["consumer"] == 1 else b"") + b"\0\x01\0",
            # rack, topics
            "share": member + b"\0" + topics + b"\0",
            # endpoint epoch, instance, rack, rebalance timeout, topology{epoch, one
            # subtopology{id, sources, regexes, changelogs, sinks, repartitions, copartitions}},
            # active, standby and warm-up tasks, process, endpoint, tags, offsets, ends, shutdown
            "streams": member + struct.pack(">ibbi", 0, 0, 0, 60_000)
            + b"\x01" + struct.pack(">i", 0) + b"\x02" + compact("0") + topics
            + b"\x01\x01\x01\x01\x01\0\0" + b"\x01\x01\x01" + compact("process")
            + b"\xff\0\0\0\0\0",
        }  # fmt: skip
        keys = {"consumer": 68, "share": 76, "streams": 88}
        for kind, api_version in kinds.items():
            body = compact(f"{kind}-group") + bodies[kind]
            assert join(server, keys[kind], api_version, body) == 0, kind
    for kind in kinds:
        assert f"{kind}-group".encode() in offsets_log(server)


def test_stop_closes_log_cleanly_and_leaves_no_process(tmp_path: Path) -> None:
    with broker("2.8.2", tmp_path) as server:
        keeper = server.zookeeper
        assert keeper is not None
        pids = [server.pid, keeper.pid]
        assert all(pid is not None and is_alive(pid) for pid in pids)
    assert not any(pid is not None and is_alive(pid) for pid in pids)
    assert (server.log_dir / ".kafka_cleanshutdown").exists()
    assert "shut down completed" in server.log_tail()
    assert class_archive("2.8.2", server.main).exists()  # written by the first that stopped


def test_failing_test_leaves_no_process(tmp_path: Path) -> None:
    seen: list[int | None] = []

    def failing() -> None:
        with zookeeper(tmp_path) as keeper:
            seen.append(keeper.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert seen[0] is not None
    assert not is_alive(seen[0])


def test_killed_pytest_leaves_no_process(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib\n"
        "from tests.broker.servers import zookeeper\n"
        "with zookeeper(pathlib.Path(sys.argv[1])) as keeper:\n"
        "    print(keeper.pid, flush=True)\n"
        "    time.sleep(100)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.send_signal(signal.SIGKILL)
    until(lambda: not is_alive(pid))


def test_server_that_cannot_start_fails_with_its_log(tmp_path: Path) -> None:
    config = {"authorizer.class.name": "no.such.Authorizer"}
    with pytest.raises(ServerError, match=r"(?s)Kafka 4\.3\.1.* ended .*no\.such\.Authorizer"):
        broker("4.3.1", tmp_path, config=config).__enter__()


def test_taken_port_is_given_up_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as rival:
        rival.bind(("127.0.0.1", 0))
        rival.listen()
        taken: int = rival.getsockname()[1]
        free = process.free_port
        ports = [taken]
        monkeypatch.setattr(process, "free_port", lambda: ports.pop() if ports else free())
        with zookeeper(tmp_path) as keeper:
            assert ports == []
            assert keeper.port != taken


def test_java_compiles_once_runs_and_fails_loudly(tmp_path: Path) -> None:
    source = tmp_path / "Shout.java"
    source.write_text(
        "import org.apache.kafka.common.utils.AppInfoParser;\n"
        "public class Shout {\n"
        "  public static void main(String[] arguments) throws Exception {\n"
        '    if (arguments.length == 0) throw new Exception("nothing to say");\n'
        "    String said = new String(System.in.readAllBytes());\n"
        "    System.out.print(AppInfoParser.getVersion() + arguments[0] + said);\n"
        "  }\n"
        "}\n"
    )
    classes = compile_java([source], "4.3.1")
    assert compile_java([source], "4.3.1") == classes
    done = run_java("4.3.1", "Shout", ["!"], input=b"loud", classes=classes)
    assert done.stdout == b"4.3.1!loud"
    with pytest.raises(JavaError, match="nothing to say"):
        run_java("4.3.1", "Shout", [], classes=classes)


def test_cache_folder_is_made_once_by_parallel_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maven, "CACHE", tmp_path)
    paths: list[Path] = []

    def make(folder: Path) -> None:
        paths.append(folder)
        time.sleep(0.3)
        (folder / "jar").touch()

    def complete(_: int) -> bool:
        return (maven.made_once(tmp_path / "kept", make) / "jar").exists()

    with ThreadPoolExecutor(4) as workers:
        assert list(workers.map(complete, range(4))) == [True] * 4
    assert len(paths) == 1

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise JavaError("no network")

    with pytest.raises(JavaError, match="no network"):
        maven.made_once(tmp_path / "failed", fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "lock"]
