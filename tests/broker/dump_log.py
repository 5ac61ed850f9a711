"""Kafka's own log dump (`kafka-dump-log`), of every version, and what it prints of a record.

What the tools print, for offset commits (O) and group metadata (G):

    0.8.2.2           no decoder for this topic: raw keys and values
    0.9 to 0.11       O key: offset::GROUP:TOPIC:PARTITION payload: OFFSET[:METADATA]
                      G key: metadata::GROUP payload: TYPE:PROTOCOL:GENERATION:{MEMBERS}
    1.1.1             O likewise; G key: {"metadata":GROUP} payload: {JSON, MEMBERS a string}
    2.8.2             O key: offset_commit::group=…,partition=… payload: offset=…[,metadata=…]
                      G key: group_metadata::group=… payload: {JSON, MEMBERS a string}
    3.9.2, 4.3.1      key: {"type", "data"} payload: {"version", "data"}, JSON by Kafka's schemas

MEMBERS is ``{ID=[TOPIC-PARTITION, …][:USER DATA],…}`` in the order of a Scala map. Up to 1.1.1
tombstones show neither key nor payload.
"""

from __future__ import annotations

import json
import re
import subprocess
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.broker import maven

JSON_VERSIONS = ("3.9.2", "4.3.1")
_MAIN = {"4.3.1": "org.apache.kafka.tools.DumpLogSegments"}


@dataclass(frozen=True)
class DumpedRecord:
    """One record as the tool prints it: what stands before the key, the key, the payload."""

    offset: int
    fields: Mapping[str, str]
    key: str | None
    payload: str | None


@dataclass(frozen=True)
class Dump:
    """All that the tool printed of a file; `failure` where it died on the way."""

    records: Sequence[DumpedRecord]
    batches: Sequence[Mapping[str, str]]
    failure: str | None


def dump(
    version: str, files: Sequence[Path], decoder: str = "--offsets-decoder"
) -> dict[Path, Dump]:
    """Run that version's tool on segments: at once, or one by one where it dies on one of them."""
    text, failure = _run(version, files, decoder)
    if failure is not None and len(files) > 1:
        return {file: dump(version, [file], decoder)[file] for file in files}
    pieces = re.split(r"(?m)^Dumping .*\n", text)[1:]
    assert len(pieces) == len(files), failure or text[:1000]
    return {
        file: _parse(version, piece, failure) for file, piece in zip(files, pieces, strict=True)
    }


def _run(version: str, files: Sequence[Path], decoder: str) -> tuple[str, str | None]:
    arguments = ["--deep-iteration", "--print-data-log", "--files", ",".join(map(str, files))]
    classes = None
    if version == "0.8.2.2":
        source = Path(__file__).parent / "java" / "HexDecoder.java"
        classes = maven.compile_java([source], version)
        arguments += ["--key-decoder-class", "HexDecoder", "--value-decoder-class", "HexDecoder"]
    else:
        arguments.insert(0, decoder)
    main = _MAIN.get(version, "kafka.tools.DumpLogSegments")
    command = [*maven.java_command(version, classes=classes), main, *arguments]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    return done.stdout.decode(), done.stderr.decode() if done.returncode else None


def _parse(version: str, text: str, failure: str | None) -> Dump:
    """Cut the text at the lines that begin a record or a batch; keys may hold newlines."""
    own_lines = version in ("2.8.2", *JSON_VERSIONS)  # batches have lines of their own, too
    start = r"(?m)^(?=\| offset: |baseOffset: |offset: -?\d+ position: |Found \d+ invalid)"
    records, batches = [], []
    for piece in re.split(start, text):
        if own_lines and piece.startswith(("baseOffset: ", "offset: ")):
            batches.append(_fields(piece))
        elif piece.startswith(("| offset: ", "offset: ")):
            records.append(_record(piece))
    return Dump(records, batches, failure)


def _record(piece: str) -> DumpedRecord:
    body = piece.removesuffix("\n")
    key, payload = None, None
    if (at := body.find(" key: ")) >= 0:
        body, key = body[:at], body[at + len(" key: ") :]
        if (at := key.find(" payload: ")) >= 0:
            key, payload = key[:at], key[at + len(" payload: ") :]
    fields = _fields(body.removeprefix("| "))
    return DumpedRecord(int(fields["offset"]), fields, key, payload)


def _fields(text: str) -> dict[str, str]:
    words = text.split()
    return {name.removesuffix(":"): value for name, value in pairwise(words) if name.endswith(":")}


def printed_form(version: str, record: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The key and payload that a tool before 3.9 prints for a record of ours.

    The members of a group stand in alphabetical order; `sorted_members` brings what the tool
    printed into that order.
    """
    value = record["value"]
    key = record["key"]["data"]
    if value is None and version != "2.8.2":
        return None, None
    data = value["data"] if value else None
    if record["type"] in ("OffsetCommit", "LegacyOffsetCommit"):
        return _offset_form(version, key, data)
    return _group_form(version, key["group"], data)


def _offset_form(
    version: str, key: Mapping[str, Any], data: Mapping[str, Any] | None
) -> tuple[str, str]:
    if version == "2.8.2":
        name = f"offset_commit::group={key['group']},partition={key['topic']}-{key['partition']}"
        if data is None:
            return name, "<DELETE>"
        metadata = f",metadata={data['metadata']}" if data["metadata"] else ""
        return name, f"offset={data['offset']}{metadata}"
    assert data is not None
    metadata = f":{data['metadata']}" if data["metadata"] else ""
    return (
        f"offset::{key['group']}:{key['topic']}:{key['partition']}",
        f"{data['offset']}{metadata}",
    )


def _group_form(version: str, group: str, data: Mapping[str, Any] | None) -> tuple[str, str]:
    name = {
        "2.8.2": f"group_metadata::group={group}",
        "1.1.1": json.dumps({"metadata": group}, separators=(",", ":"), ensure_ascii=False),
    }.get(version, f"metadata::{group}")
    if data is None:
        return name, "<DELETE>"
    members = "{" + ",".join(sorted(map(_member_form, data["members"]))) + "}"
    if version in ("1.1.1", "2.8.2"):
        payload = {
            "protocolType": data["protocolType"],
            "protocol": data["protocol"],
            "generationId": data["generation"],
            "assignment": members,
        }
        return name, json.dumps(payload, ensure_ascii=False)
    protocol = "null" if data["protocol"] is None else data["protocol"]
    # 0.10 and 0.11 take the protocol type from a member, and lose that of a group without any.
    kept = data["members"] or version == "0.9.0.1"
    protocol_type = data["protocolType"] if kept else ""
    return name, f"{protocol_type}:{protocol}:{data['generation']}:{members}"


def sorted_members(printed: str, record: Mapping[str, Any]) -> str:
    """A tool's payload of group metadata with the members in alphabetical order.

    The text is given back as it is where it does not consist of the record's members.
    """
    texts = sorted(map(_member_form, record["value"]["data"]["members"]))
    start, end = printed.find("{", 1), printed.rfind("}")
    if printed.startswith("{"):
        end = printed.rfind("}", 0, end)
    inside = printed[start + 1 : end]
    rest = inside
    for text in texts:
        rest = rest.replace(text, "", 1)
    if rest.strip(","):
        return printed
    return printed[: start + 1] + ",".join(texts) + printed[end:]


def _member_form(member: Mapping[str, Any]) -> str:
    assignment = member["assignment"]
    if "raw" in assignment:
        return f"{member['memberId']}={_hexadecimal(b64decode(assignment['raw']))}"
    partitions = ", ".join(
        f"{topic['topic']}-{partition}"
        for topic in assignment["assignedPartitions"]
        for partition in topic["partitions"]
    )
    user_data = _hexadecimal(b64decode(assignment["userData"] or ""))
    return f"{member['memberId']}=[{partitions}]" + (f":{user_data}" if user_data else "")


def _hexadecimal(raw: bytes) -> str:
    """As Java prints a BigInteger: without zeros in front."""
    return f"{int.from_bytes(raw, 'big'):X}" if raw else ""
