"""Ways to damage fields of records, with everything around them right again: lengths, checksums.

What is changed is a node of a `message_tree`: of a key, a value, or the record that holds them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from tests.columnar import log_writer
from tests.columnar.log_writer import CODECS, Plain
from tests.fuzz.corpus import Unit, sealed
from tests.fuzz.message_tree import Node, group, key_tree, listed, number, text, value_tree
from tests.fuzz.mutation import Damage, extreme, hit

_TEXTS = (
    b"",
    b"a",
    b"consumer",
    b"connect",
    b"range",
    b"sticky",
    b"cooperative-sticky",
    b"stream",
    b"\0",
    b'"\\\n\x1f\x7f',
    b"\xff\xfe",
    b"\xc0\x80",
    b"\xed\xa0\x80\xed\xb0\x80",
    b"\xe2\x80",
    "é漢😀\u2028".encode(),
    b"x" * 300,
)
_HUGE_TEXTS = (b"y" * 32767, b"z" * 32768, b'"' * 40_000)

# ---- nodes


def mutated(node: Node, random: Random) -> Node:
    """The tree with one node changed; lengths and counts of all that it is in are right."""
    return _changed_at(node, random.randrange(node.weight), random)


def _changed_at(node: Node, index: int, random: Random) -> Node:
    if index == 0:
        return _changed(node, random)
    index -= 1
    for at, part in enumerate(node.parts):
        if index < part.weight:
            changed = _changed_at(part, index, random)
            return node.with_parts((*node.parts[:at], changed, *node.parts[at + 1 :]))
        index -= part.weight
    raise AssertionError("the weight is that of the parts")


def _changed(node: Node, random: Random) -> Node:
    if node.prefix and random.random() < 0.25:
        return replace(node, claim=_claim(node, random))
    if node.parts:
        return node.with_parts(_reordered(node.parts, random))
    if node.prefix:
        return replace(node, content=_other_text(node.content, random), claim=None)
    return number(_other_number(node.data, random))


def _claim(node: Node, random: Random) -> int:
    """A length or a count that is wrong, mostly by little; or null."""
    size = len(node.parts if node.is_list else node.content)
    return random.choice(
        (-1, -1, size - 1, size + 1, size + random.randint(-9, 9), extreme(random))
    )


def _reordered(parts: Sequence[Node], random: Random) -> tuple[Node, ...]:
    """Parts of which one is left out, comes twice or often, or stands elsewhere; or none."""
    left = list(parts)
    part = left.pop(random.randrange(len(left)))
    choice = random.randrange(12)
    if choice == 0:
        left = []
    elif choice == 1:
        left = [part] * random.choice((2, 130, 1000 if len(part.data) < 20 else 3)) + left
    elif choice < 5:
        left += [part, part]
    elif choice < 8:
        left.insert(random.randrange(len(left) + 1), part)
    return tuple(left)


def _other_text(content: bytes, random: Random) -> bytes:
    choice = random.random()
    if choice < 0.005:
        return random.choice(_HUGE_TEXTS)
    if choice < 0.5 or not content:
        return random.choice(_TEXTS)
    if choice < 0.8:
        return hit(content, random)
    return content + random.choice(_TEXTS)


def _other_number(data: bytes, random: Random) -> bytes:
    size = len(data)
    if size > 8 or size == 0:  # a uuid, or what nobody knows
        return random.choice(
            (bytes(size), b"\xff" * size, random.randbytes(size), hit(data, random))
        )
    value = int.from_bytes(data, "big")
    choice = random.random()
    if choice < 0.5:
        value = extreme(random)
    elif choice < 0.8:
        value += random.choice((-1, 1))
    else:
        value ^= 1 << random.randrange(8 * size)
    return (value % (1 << 8 * size)).to_bytes(size, "big")


# ---- records


def _fields_of(plain: Plain, random: Random) -> Plain:
    """Another key, or rather another value."""
    key, value = plain.key, plain.value
    if key is not None and (value is None or random.random() < 0.25):
        return replace(plain, key=mutated(key_tree(key), random).data)
    if value is None:
        return replace(plain, key=random.choice((b"", b"\0\2\0\1g")), value=b"\0\3")
    tree = value_tree(key, value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        tree = mutated(tree, random)
    value = tree.data
    choice = random.random()
    if choice < 0.04:
        value = value[: random.randrange(len(value) + 1)]
    elif choice < 0.08:
        value += random.choice((b"\0", b"\0\0\0\0", b"trailing"))
    return replace(plain, value=value)


def _packed(unit: Unit, body: bytes, count: int, random: Random) -> bytes:
    """A batch of records that are laid out, compressed in its way or in another."""
    codec = unit.codec
    if codec != "none" and random.random() < 0.2:
        codec = random.choice(CODECS[1:] if unit.magic == 2 else CODECS[1:4])
    return unit.with_packed(log_writer.compress(codec, body), codec, count)


def _field(window: list[Unit], random: Random) -> bytes:
    """Fields of keys and values, in some records of each batch."""
    return b"".join(_with_fields(unit, random) for unit in window)


def _with_fields(unit: Unit, random: Random) -> bytes:
    plains = [
        _fields_of(plain, random) if random.random() < 0.7 else plain for plain in unit.plains
    ]
    return _packed(unit, unit.body(plains), len(plains), random)


def _envelope(window: list[Unit], random: Random) -> bytes:
    """Fields of records around keys and values: lengths, varints, deltas, headers."""
    return b"".join(_with_envelopes(unit, random) for unit in window)


def _with_envelopes(unit: Unit, random: Random) -> bytes:
    plains = unit.plains
    if unit.magic == 1 and unit.codec != "none" and plains:  # where offsets are relative
        plains = [replace(plain, offset=plain.offset - plains[0].offset) for plain in plains]
    trees = [_record_tree(unit, plain) for plain in plains]
    for _ in range(random.choice((1, 1, 2))):
        if trees:
            at = random.randrange(len(trees))
            trees[at] = mutated(trees[at], random)
    messages = [tree.data for tree in trees]
    if unit.magic < 2:
        messages = [sealed(message) if len(message) > 16 else message for message in messages]
    return _packed(unit, b"".join(messages), len(messages), random)


def _record_tree(unit: Unit, plain: Plain) -> Node:
    """A record, or a message of an older format, whose checksum is put right later."""
    if unit.magic < 2:
        head = struct.pack(">qiIbb", plain.offset, 0, 0, unit.magic, 0)
        time = [number(struct.pack(">q", plain.timestamp))] if unit.magic else []
        parts = [number(head[:8]), number(head[8:16]), number(head[16:17]), number(head[17:])]
        return group([*parts, *time, text("int32", plain.key), text("int32", plain.value)])
    (base,), (start,) = struct.unpack_from(">q", unit.data), struct.unpack_from(">q", unit.data, 27)
    headers = [
        group([text("zigzag", name.encode()), text("zigzag", value)])
        for name, value in plain.headers
    ]
    parts = [
        number(b"\0"),
        _varint(plain.timestamp - start),
        _varint(plain.offset - base),
        text("zigzag", plain.key),
        text("zigzag", plain.value),
        listed("zigzag", headers or ([group([text("zigzag", b"h"), text("zigzag", None)])])),
    ]
    return group(parts, "zigzag")


def _varint(value: int) -> Node:
    """A varint, which is changed as a length is: by its claim."""
    return Node(b"", "zigzag", claim=value)


# ---- batches


def _order(window: list[Unit], random: Random) -> bytes:
    """Records of all batches, in any of them: twice, not at all, in another order."""
    pool = [plain for unit in window for plain in unit.plains] or [Plain(0)]
    out = []
    for unit in window:
        plains = random.choices(pool, k=random.choice((0, 1, 2, 3, 6)))
        if random.random() < 0.3:
            plains = [replace(plain, value=random.choice((None, plain.value))) for plain in plains]
        if random.random() < 0.5:
            (base,) = struct.unpack_from(">q", unit.data)
            plains = [replace(plain, offset=base + at) for at, plain in enumerate(plains)]
        out.append(unit.with_records(plains))
    return b"".join(out)


_PRODUCERS = (0, 1, 2, 1 << 40, (1 << 63) - 1)


def _transaction(window: list[Unit], random: Random) -> bytes:
    """Transactions of few producers: committed, aborted, open; their markers anywhere."""
    plains = [plain for unit in window for plain in unit.plains] or [Plain(0, 0, b"k", b"v")]
    offset = random.choice((0, 1000, 1 << 40))
    out = []
    for _ in range(random.randint(2, 6)):
        producer = random.choice(_PRODUCERS)
        epoch = random.choice((0, 1, -1, 32767))
        if random.random() < 0.4:
            marker = log_writer.marker(offset, producer, random.choice((0, 1, 1, 2)), epoch)
            out.append(marker)
            offset += 1
            continue
        taken = [
            replace(plain, offset=offset + at)
            for at, plain in enumerate(random.choices(plains, k=random.randint(1, 3)))
        ]
        flags = random.choice((log_writer.TRANSACTIONAL,) * 4 + (0, log_writer.CONTROL, 0x30, 0x18))
        out.append(
            log_writer.batch(
                taken,
                codec=random.choice(("none", "none", *CODECS)),
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=random.choice((-1, 0, 7)),
                leader_epoch=random.choice((-1, 0, 3)),
                flags=flags,
            )
        )
        offset += len(taken) + random.choice((0, 0, 1, -2))
        offset = max(offset, 0)
    return b"".join(out)


def _format(window: list[Unit], random: Random) -> bytes:
    """Records of one message format in batches of another, fields damaged or not."""
    out = []
    for unit in window:
        plains = unit.plains
        if plains and random.random() < 0.5:
            plains = [_fields_of(plain, random) for plain in plains]
        magic = random.randrange(3)
        codec = random.choice(("none", *CODECS[: 5 if magic == 2 else 4]))
        if magic == 2:
            flags = random.choice((0, 0, log_writer.LOG_APPEND, log_writer.DELETE_HORIZON))
            out.append(log_writer.batch(plains, codec=codec, flags=flags))
        elif plains:
            flags = random.choice((0, 8)) if codec != "none" else 0
            packed = log_writer.message_set(plains, magic=magic, codec=codec, flags=flags)
            out.append(packed)
    return b"".join(out)


def _wrong(window: list[Unit], random: Random) -> bytes:
    """Batches whose fields are damaged, one of them with a wrong length, checksum or end."""
    units = [_with_fields(unit, random) for unit in window]
    at = random.randrange(len(units))
    data = bytearray(units[at])
    choice = random.randrange(4)
    if choice == 0 and len(data) > 20:
        data[random.choice((12, 17, 20))] ^= 1 << random.randrange(8)
    elif choice == 1 and len(data) > 12:
        wrong = len(data) - 12 + random.choice((-9, -1, 1, 9, 300))
        struct.pack_into(">I", data, 8, wrong % (1 << 32))
    elif choice == 2:
        del data[random.randrange(len(data) + 1) :]
    else:
        data[:] = hit(bytes(data), random)
    units[at] = bytes(data)
    return b"".join(units)


KINDS: Mapping[str, tuple[float, Damage]] = {
    "field": (40, _field),
    "envelope": (6, _envelope),
    "order": (6, _order),
    "transaction": (4, _transaction),
    "format": (5, _format),
    "wrong": (2, _wrong),
}
"""Kind of damage -> how often, and how; as `mutation.KINDS`."""
