"""Ways to damage a log. Every input follows from a seed and a number, whenever and wherever.

Some hit bytes blindly, and are mostly found by a checksum. The others damage the inside of one
batch and make its checksum right again, so that everything behind the checksum is hit too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from kgroup.protocol.message import codec
from kgroup.protocol.message.schema import versions
from kgroup.protocol.record.coordinator_record import KEY_TYPES
from tests.columnar import log_writer
from tests.columnar.log_writer import CODECS, Plain
from tests.fuzz.corpus import Unit, recorded_logs, sealed
from tests.protocol.message.random_message import any_message

_EXTREMES = (0, 1, -1, -2, 2, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 1 << 20, 1 << 26)
_BYTES = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
_LONG_VARINTS = (b"\x80" * 4 + b"\x00", b"\x80" * 9 + b"\x01", b"\xff" * 11, b"\xff" * 4 + b"\x0f")
_MOST_UNITS = 6


@dataclass(frozen=True)
class Input:
    """A damaged log.

    Attributes:
        kind: of damage.
        data: the log.
        random: goes on where making the input ended; for choices of how to read it.
    """

    kind: str
    data: bytes
    random: Random


def make_input(seed: int, number: int) -> Input:
    """Make an input; equal numbers of equal seeds give equal ones."""
    random = Random(f"{seed}/{number}")
    kind = random.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    _, damage = KINDS[kind]
    return Input(kind, damage(_window(random), random), random)


def sound_log() -> bytes:
    """A log that has nothing wrong with it."""
    return _joined(list(_logs()[0]))


@cache
def _logs() -> Sequence[Sequence[Unit]]:
    return recorded_logs()


def _window(random: Random) -> list[Unit]:
    """A few batches that follow each other: what is small is tried often."""
    log = random.choice(_logs())
    first = random.randrange(len(log))
    count = len(log) if random.random() < 0.02 else random.randint(1, _MOST_UNITS)
    return list(log[first : first + count])


# ---- bytes of any kind


def extreme(random: Random) -> int:
    return random.choice((*_EXTREMES, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63)))


def _flip(data: bytearray, at: int, random: Random) -> None:
    data[at] ^= 1 << random.randrange(8)


def _set(data: bytearray, at: int, random: Random) -> None:
    data[at] = random.choice(_BYTES)


def _insert(data: bytearray, at: int, random: Random) -> None:
    size = random.choice((1, 2, 4, 8, 100))
    data[at:at] = random.randbytes(size) if random.random() < 0.5 else bytes(size)


def _delete(data: bytearray, at: int, random: Random) -> None:
    del data[at : at + random.choice((1, 1, 2, 4, 8, 61, 1000))]


def _cut(data: bytearray, at: int, random: Random) -> None:
    del data[at:]


def _number(data: bytearray, at: int, random: Random) -> None:
    """A big-endian number, as lengths and counts are, set to an extreme."""
    size = random.choice((2, 4, 4, 8))
    number = extreme(random) % (1 << 8 * size)
    data[at : at + size] = number.to_bytes(size, "big")[: len(data) - at]


def _varint(data: bytearray, at: int, random: Random) -> None:
    """A varint set to an extreme, or longer than it may be."""
    if random.random() < 0.5:
        data[at : at + 1] = random.choice(_LONG_VARINTS)
    else:
        data[at : at + 1] = log_writer.varint(extreme(random))


def _repeat(data: bytearray, at: int, random: Random) -> None:
    block = data[at : at + random.choice((1, 4, 16, 100))]
    data[at:at] = block * random.choice((1, 2, 10, 300))


_HITS = (_flip, _flip, _set, _insert, _delete, _cut, _number, _number, _varint, _repeat)


def hit(data: bytes, random: Random, *, least: int = 0) -> bytes:
    """Damage bytes, those from `least` on, in one place or a few."""
    damaged = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        if len(damaged) > least:
            random.choice(_HITS)(damaged, random.randrange(least, len(damaged)), random)
    return bytes(damaged)


# ---- a whole log

Damage = Callable[[list[Unit], Random], bytes]


def _blind(change: Callable[[bytearray, int, Random], None]) -> Damage:
    def damage(window: list[Unit], random: Random) -> bytes:
        data = bytearray(_joined(window))
        for _ in range(random.choice((1, 1, 2, 4, 16))):
            if data:
                change(data, random.randrange(len(data)), random)
        return bytes(data)

    return damage


def _joined(window: list[Unit]) -> bytes:
    return b"".join(unit.data for unit in window)


def _zeros(window: list[Unit], random: Random) -> bytes:
    """Space that was allocated and not written, or lost."""
    data = _joined(window)
    at = random.randrange(len(data) + 1)
    size = random.choice((1, 8, 17, 61, 512, 4096, 300_000))
    hole = bytes(size) if random.random() < 0.8 else random.randbytes(size)
    return data[:at] + hole + data[at + random.choice((0, size)) :]


def _splice(window: list[Unit], random: Random) -> bytes:
    """The begin of one log and the end of another."""
    left, right = _joined(window), _joined(_window(random))
    return left[: random.randrange(len(left) + 1)] + right[random.randrange(len(right) + 1) :]


def _shuffle(window: list[Unit], random: Random) -> bytes:
    """Batches in any order, some of them several times: offsets go backwards."""
    units = [*window, *_window(random)]
    return b"".join(random.choice(units).data for _ in range(random.randint(1, 12)))


def _length(window: list[Unit], random: Random) -> bytes:
    """The length of a batch, with or without the right one's checksum."""
    unit = random.choice(window)
    data = bytearray(unit.data)
    wrong = random.choice((extreme(random), len(data) - 12 + random.randint(-9, 9)))
    struct.pack_into(">I", data, 8, wrong % (1 << 32))
    return _with(window, unit, bytes(data))


def _plausible(window: list[Unit], random: Random) -> bytes:
    """Headers close behind each other that each claim to be a long batch: work for nothing."""
    unit = random.choice(window)
    header = bytearray(unit.data[: random.choice((17, 30, 61))])
    size = random.choice((20_000, 200_000))
    struct.pack_into(">i", header, 8, random.choice((size // 2, size, 1000)))
    log = bytes(header) * (size // len(header))
    return log + unit.data if random.random() < 0.5 else log


# ---- one batch, behind a right checksum


def _with(window: list[Unit], unit: Unit, data: bytes) -> bytes:
    """The window with other bytes in the place of one batch."""
    return b"".join(data if other is unit else other.data for other in window)


_V2_FIELDS = ((0, 8), (12, 4), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4))
_V2_COUNT = (57, 4)


def _header(window: list[Unit], random: Random) -> bytes:
    """Fields of a batch's header."""
    unit = random.choice(window)
    data = bytearray(unit.data)
    if unit.magic < 2:
        fields: Sequence[tuple[int, int]] = ((0, 8), (16, 1), (17, 1), (18, 4), (26, 4), (18, 8))
    else:
        fields = (*_V2_FIELDS, _V2_COUNT, _V2_COUNT)
    for _ in range(random.choice((1, 1, 2, 3))):
        at, size = random.choice(fields)
        number = extreme(random)
        if random.random() < 0.3:
            number = int.from_bytes(data[at : at + size], "big") ^ 1 << random.randrange(8 * size)
        data[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "big")
    return _with(window, unit, sealed(bytes(data)))


def _records(window: list[Unit], random: Random) -> bytes:
    """Bytes of the records before they are compressed: lengths, offsets, counts of headers."""
    unit = random.choice(window)
    if unit.magic < 2 and unit.codec == "none":
        return _with(window, unit, sealed(hit(unit.data, random, least=17)))
    body = hit(unit.body(unit.plains), random)
    return _with(window, unit, unit.with_packed(log_writer.compress(unit.codec, body), unit.codec))


def _compressed(window: list[Unit], random: Random) -> bytes:
    """Compressed bytes."""
    unit = random.choice(window)
    codec = unit.codec
    if codec == "none":
        codec = random.choice(CODECS[1:] if unit.magic == 2 else CODECS[1:4])
    packed = log_writer.compress(codec, unit.body(unit.plains))
    return _with(window, unit, unit.with_packed(hit(packed, random), codec))


def _codec(window: list[Unit], random: Random) -> bytes:
    """Compressed bytes of one codec under the name of another; and those of several batches."""
    unit = random.choice(window)
    packed = log_writer.compress(random.choice(CODECS), unit.body(unit.plains))
    packed *= random.choice((1, 1, 2))
    wrong = unit.with_packed(packed, random.choice(CODECS[1:]))
    return _with(window, unit, wrong)


def _inside(window: list[Unit], random: Random) -> bytes:
    """A message in a compressed one, its checksum right or not, and compressed once more or not."""
    unit = random.choice(window)
    codec = unit.codec if unit.codec != "none" else random.choice(CODECS[1:4])
    body = unit.body(unit.plains)
    for _ in range(random.choice((1, 1, 2, 4))):
        if unit.magic < 2 and len(body) > 17 and random.random() < 0.6:
            (size,) = struct.unpack_from(">i", body, 8)
            first = bytearray(body[: 12 + size])
            at, width = random.choice(((0, 8), (16, 1), (17, 1), (18, 8), (26, 4)))
            number = extreme(random) % (1 << 8 * width)
            first[at : at + width] = number.to_bytes(width, "big")
            body = sealed(bytes(first)) + body[12 + size :]
        else:
            body = unit.with_packed(log_writer.compress(codec, body), codec)
    return _with(window, unit, unit.with_packed(log_writer.compress(codec, body), codec))


def _bomb(window: list[Unit], random: Random) -> bytes:
    """Few bytes that decompress to many."""
    unit = random.choice(window)
    codec = random.choice(CODECS[1:] if unit.magic == 2 else CODECS[1:4])
    size = random.choice((1 << 20, 1 << 24, 1 << 28))
    packed = _packed_zeros(codec, size)
    return _with(window, unit, unit.with_packed(packed, codec))


@cache
def _packed_zeros(codec: str, size: int) -> bytes:
    return log_writer.compress(codec, bytes(size))


# ---- one record


def _record(change: Callable[[Plain, Random], Plain]) -> Damage:
    """A record of a batch, everything around it right."""

    def damage(window: list[Unit], random: Random) -> bytes:
        unit = random.choice(window)
        plains = list(unit.plains)
        if plains:
            at = random.randrange(len(plains))
            plains[at] = change(plains[at], random)
        return _with(window, unit, unit.with_records(plains))

    return damage


def _key(plain: Plain, random: Random) -> Plain:
    return replace(plain, key=_part(plain.key, random))


def _value(plain: Plain, random: Random) -> Plain:
    return replace(plain, value=_part(plain.value, random))


def _part(part: bytes | None, random: Random) -> bytes | None:
    if part is None or random.random() < 0.05:
        return random.choice((None, b"", b"\0", random.randbytes(random.randrange(40))))
    return hit(part, random)


def _text(plain: Plain, random: Random) -> Plain:
    """Another group id, which every key begins with: no UTF-8, control characters, the longest."""
    key = plain.key or b"\0\1\0\0"
    (size,) = struct.unpack_from(">h", key.ljust(4, b"\0"), 2)
    pieces = (b"\0", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f", b"\n", b'"', b"\x7f", "é".encode())
    text = b"".join(random.choices(pieces, k=random.choice((1, 3, 20))))
    text = (text * (1 << 15 if random.random() < 0.1 else 1))[:32767]
    return replace(plain, key=key[:2] + struct.pack(">h", len(text)) + text + key[4 + size :])


def _version(plain: Plain, random: Random) -> Plain:
    """The first two bytes of key or value: a record of another type, of another version."""
    number = random.choice((-1, *range(26), 300)) % (1 << 16)
    if random.random() < 0.5 or plain.value is None:
        return replace(plain, key=number.to_bytes(2, "big") + (plain.key or b"")[2:])
    return replace(plain, value=number.to_bytes(2, "big") + plain.value[2:])


def _swap(window: list[Unit], random: Random) -> bytes:
    """The value of one record, from any log, behind the key of another."""
    unit = random.choice(window)
    others = random.choice(_window(random)).plains or [Plain(0)]
    plains = [
        replace(plain, value=random.choice(others).value) if random.random() < 0.5 else plain
        for plain in unit.plains
    ]
    return _with(window, unit, unit.with_records(plains))


def _member(plain: Plain, random: Random) -> Plain:
    """What members of a group say or were given, in a record that is right around it."""
    data = _message("GroupMetadata", plain)
    if data is None or not data["members"]:
        return _value(plain, random)
    data["protocolType"] = random.choice(("consumer", "consumer", "connect", "other"))
    data["protocol"] = random.choice(("range", "sticky", "cooperative-sticky", "stream", None))
    for member in data["members"]:
        field = random.choice(("subscription", "assignment"))
        member[field] = hit(member[field], random)
    return _written(plain, "GroupMetadata", data)


def _many(plain: Plain, random: Random) -> Plain:
    """A list in a value made long, or empty."""
    name = _type(plain)
    data = _message(name, plain)
    lists = [field for field, value in (data or {}).items() if isinstance(value, list) and value]
    if data is None or not lists:
        return _value(plain, random)
    field = random.choice(lists)
    data[field] = data[field] * random.choice((0, 2, 20, 1000))
    return _written(plain, name, data)


def _any(plain: Plain, random: Random) -> Plain:
    """Any record of any type and version."""
    name = random.choice(list(KEY_TYPES.values()))
    folder = "coordinator_4_0" if name == "ShareGroupPartitionMetadata" else "coordinator"
    schema = f"{folder}/{name}Key"
    key = _made(schema, versions(schema)[0], random)
    schema = f"{folder}/{name}Value"
    version = random.randint(versions(schema)[0], versions(schema)[-1])
    number = next(number for number, known in KEY_TYPES.items() if known == name)
    return replace(
        plain,
        key=struct.pack(">h", number) + key,
        value=struct.pack(">h", version) + _made(schema, version, random),
    )


def _type(plain: Plain) -> str:
    return KEY_TYPES.get(int.from_bytes((plain.key or b"")[:2], "big"), "")


def _message(name: str, plain: Plain) -> dict[str, Any] | None:
    """A record's value, its bytes fields as bytes; None if it is not of the type `name`."""
    if plain.value is None or not name or _type(plain) != name:
        return None
    version = int.from_bytes(plain.value[:2], "big")
    try:
        read = codec.reader(f"coordinator/{name}Value", version, raw_bytes=True)
        return read(plain.value, 2, len(plain.value))[0]
    except (ValueError, FileNotFoundError):
        return None


def _written(plain: Plain, name: str, data: Mapping[str, Any]) -> Plain:
    assert plain.value is not None
    version = int.from_bytes(plain.value[:2], "big")
    value = codec.write(f"coordinator/{name}Value", version, data)
    return replace(plain, value=plain.value[:2] + value)


def _made(schema: str, version: int, random: Random) -> bytes:
    return codec.write(schema, version, any_message(random, schema, version))


KINDS: Mapping[str, tuple[float, Damage]] = {
    "flip": (6, _blind(_flip)),
    "set": (4, _blind(_set)),
    "insert": (4, _blind(_insert)),
    "delete": (4, _blind(_delete)),
    "cut": (4, _blind(_cut)),
    "number": (4, _blind(_number)),
    "varint": (2, _blind(_varint)),
    "repeat": (4, _blind(_repeat)),
    "zeros": (3, _zeros),
    "splice": (5, _splice),
    "shuffle": (4, _shuffle),
    "length": (4, _length),
    "plausible": (0.2, _plausible),
    "header": (10, _header),
    "records": (10, _records),
    "compressed": (10, _compressed),
    "codec": (4, _codec),
    "inside": (6, _inside),
    "bomb": (0.1, _bomb),
    "key": (8, _record(_key)),
    "value": (12, _record(_value)),
    "text": (4, _record(_text)),
    "version": (6, _record(_version)),
    "swap": (4, _swap),
    "member": (8, _record(_member)),
    "many": (3, _record(_many)),
    "any": (8, _record(_any)),
}
"""Kind of damage -> how often, and how."""
