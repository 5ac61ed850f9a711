"""Run the programs of `schema_program`, which convert bytes directly to JSON text.

Importing this module imports numba. All positions are addresses; `room` is the end of the memory
that a function may write. A negative position is the reason why nothing could be written.
"""

from __future__ import annotations

from collections.abc import Callable

from kgroup.kernel import instruction as op
from kgroup.kernel.intrinsics import (
    BLOCK,
    compiled,
    copy_block,
    equal,
    get,
    inlined,
    load_int16,
    load_int32,
    load_int64,
    load_uint8,
    load_word,
    odd_bytes,
    record_at,
    store_uint8,
    store_word,
    tail,
    trailing_zeros,
)
from kgroup.kernel.memory import MOST_TOPICS, STACK_SIZE, Machine

machine_at: Callable[[int], Machine] = record_at(Machine)

GIVE_UP = -1
"""The bytes are unusual: the reference decoder must decode them."""
NO_ROOM = -2
"""The text does not fit into the remaining memory."""

_MAX_STRING = 32767
_SLACK = BLOCK  # maximum overshoot when a word is written over the end of a text, or a number

_LOW_BITS = 0x0101010101010101
_HIGH_BITS = -0x7F7F7F7F7F7F7F80
_ZEROS = 0x30 * _LOW_BITS

_1E8 = 10**8
_POSITIVE = (1 << 63) - 1  # tells the compiler that the dividend is not negative
_SMALLEST_HIGH, _SMALLEST_LOW = divmod(1 << 63, _1E8)


@compiled
def _sequence(at: int, end: int) -> int:
    """Return the length of the UTF-8 sequence at `at`; 0 if it is not well-formed."""
    first = load_uint8(at)
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4:
        return 0
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if at + size > end:
        return 0
    second = load_uint8(at + 1)
    low, high = 0x80, 0xBF
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    if second < low or second > high:
        return 0
    for index in range(2, size):
        if load_uint8(at + index) & 0xC0 != 0x80:
            return 0
    return size


@compiled
def is_utf8(at: int, size: int) -> bool:
    """Return whether `size` bytes are well-formed UTF-8."""
    end = at + size
    while at < end:
        if end - at >= 8 and load_word(at) & _HIGH_BITS == 0:
            at += 8
            continue
        length = _sequence(at, end)
        if length == 0:
            return False
        at += length
    return True


@compiled
def _write_odd_string(at: int, end: int, out: int, room: int) -> int:
    """Write the rest of a string from the first byte to escape, without the closing quote."""
    while at < end:
        if out + 16 > room:
            return NO_ROOM
        byte = load_uint8(at)
        if byte >= 0x80:
            length = _sequence(at, end)
            if length == 0:
                return GIVE_UP
            store_word(out, load_word(at))
            at += length
            out += length
            continue
        at += 1
        letter = 0
        if byte == 0x22 or byte == 0x5C:
            letter = byte
        elif byte == 0x08:
            letter = 0x62
        elif byte == 0x09:
            letter = 0x74
        elif byte == 0x0A:
            letter = 0x6E
        elif byte == 0x0C:
            letter = 0x66
        elif byte == 0x0D:
            letter = 0x72
        if letter:
            store_uint8(out, 0x5C)
            store_uint8(out + 1, letter)
            out += 2
        elif byte < 0x20:
            store_word(out, 0x3030755C)  # \u00
            store_uint8(out + 4, 0x30 + (byte >> 4))
            digit = byte & 15
            store_uint8(out + 5, digit + (0x30 if digit < 10 else 0x57))
            out += 6
        else:
            store_uint8(out, byte)
            out += 1
    return out


@compiled
def write_string(at: int, size: int, out: int, room: int) -> int:
    """Write UTF-8 bytes as a JSON string."""
    if out + size + _SLACK > room:
        return NO_ROOM
    store_uint8(out, 0x22)
    out += 1
    end = at + size
    while at < end:
        left = end - at
        odd = odd_bytes(at)
        if left < BLOCK:
            odd &= (1 << left) - 1
        copy_block(out, at)
        plain = min(left, BLOCK) if odd == 0 else trailing_zeros(odd)
        at += plain
        out += plain
        if odd != 0:
            out = _write_odd_string(at, end, out, room)
            if out < 0:
                return out
            break
    store_uint8(out, 0x22)
    return out + 1


@inlined
def _eight_digits(value: int) -> int:
    """Return the decimal digits of a number below 10^8 as a word, first digit lowest.

    The number is split into two of four digits, next to each other in the word, these into four of
    two, and these into eight of one. Multiplications and shifts divide all of them at once.
    """
    high = value * 109951163 >> 40
    word = high | (value - high * 10000) << 32
    high = (word * 10486 >> 20) & 0x0000007F0000007F
    word = high | (word - high * 100) << 16
    high = (word * 103 >> 10) & 0x000F000F000F000F
    return high | (word - high * 10) << 8


@inlined
def _write_short_integer(value: int, out: int) -> int:
    """Write a number below 10^8 without leading zeros."""
    digits = _eight_digits(value)
    zeros = trailing_zeros(digits | 1 << 56) & 56  # number of bits of the leading zeros
    store_word(out, (digits + _ZEROS) >> zeros)
    return out + 8 - (zeros >> 3)


@compiled
def write_integer(value: int, out: int) -> int:
    """Write a decimal integer: up to 20 bytes, and up to 8 more may be overwritten."""
    if value < 0:
        store_uint8(out, 0x2D)
        out += 1
        value = -value
    if value >= 0 and value < _1E8:
        return _write_short_integer(value, out)
    high = (value & _POSITIVE) // _1E8
    low = value - high * _1E8
    if value < 0:  # the smallest integer has no positive counterpart
        high = _SMALLEST_HIGH
        low = _SMALLEST_LOW
    if high < _1E8:
        out = _write_short_integer(high, out)
    else:
        highest = (high & _POSITIVE) // _1E8
        out = _write_short_integer(highest, out)
        store_word(out, _eight_digits(high - highest * _1E8) + _ZEROS)
        out += 8
    store_word(out, _eight_digits(low) + _ZEROS)
    return out + 8


@compiled
def _write_base64(at: int, size: int, out: int, room: int, alphabet: int, is_padded: bool) -> int:
    """Write bytes as base64 between quotes."""
    if out + (size + 2) // 3 * 4 + _SLACK > room:
        return NO_ROOM
    store_uint8(out, 0x22)
    out += 1
    end = at + size
    while at < end:
        left = end - at
        bits = load_uint8(at) << 16
        if left > 1:
            bits |= load_uint8(at + 1) << 8
        if left > 2:
            bits |= load_uint8(at + 2)
        store_uint8(out, load_uint8(alphabet + (bits >> 18)))
        store_uint8(out + 1, load_uint8(alphabet + ((bits >> 12) & 63)))
        store_uint8(out + 2, load_uint8(alphabet + ((bits >> 6) & 63)) if left > 1 else 0x3D)
        store_uint8(out + 3, load_uint8(alphabet + (bits & 63)) if left > 2 else 0x3D)
        at += 3
        out += 4
    if not is_padded:
        out -= (3 - size % 3) % 3
    store_uint8(out, 0x22)
    return out + 1


@compiled
def _length(at: int, limit: int, is_wide: bool, is_compact: int) -> tuple[int, int]:
    """Return a length (-1 for null) and the start of the data, which is -1 if it does not fit."""
    if is_compact:
        size = load_uint8(at)
        at += 1
        if size >= 0x80:
            byte = load_uint8(at)
            at += 1
            size = (size & 0x7F) | byte << 7
            if byte >= 0x80:
                byte = load_uint8(at)
                at += 1
                size = (size & 0x3FFF) | byte << 14
                if byte >= 0x80:
                    return 0, GIVE_UP
            if byte == 0:  # longer than necessary
                return 0, GIVE_UP
        size -= 1
    elif is_wide:
        size = load_int32(at)
        at += 4
    else:
        size = load_int16(at)
        at += 2
    if size > limit - at:
        return 0, GIVE_UP
    return size, at


@compiled
def _is_text(at: int, size: int, first: int, second: int, third: int) -> bool:
    """Return whether a string of up to 24 bytes equals the one in these words."""
    left = size
    for expected in (first, second, third):
        word = load_word(at)
        if left < 8:
            word &= (1 << (8 * left)) - 1 if left > 0 else 0
        if word != expected:
            return False
        at += 8
        left -= 8
    return left <= 0


def _words(text: str) -> tuple[int, int, int, int]:
    """Return the size of a text, and its words."""
    raw = text.encode().ljust(24, b"\0")
    first, second, third = (int.from_bytes(raw[at : at + 8], "little") for at in (0, 8, 16))
    return len(text), first, second, third


_CONSUMER = _words("consumer")
_CONNECT = _words("connect")
_STICKY = _words("sticky")
_COOPERATIVE = _words("cooperative-sticky")
_STREAM = _words("stream")
_NULL = int.from_bytes(b"null", "little")
_RAW = int.from_bytes(b'{"raw":', "little")
_EMPTY_ARRAY = int.from_bytes(b"[]", "little")


@compiled
def _is_note(block: Machine, note: int, words: tuple[int, int, int, int]) -> bool:
    """Return whether a noted string equals the one in `words` (size and words)."""
    start = block.note_start[note]
    size = block.note_size[note]
    return size == words[0] and _is_text(start, size, words[1], words[2], words[3])


@inlined
def _member_part(block: Machine, part: int) -> int:
    """Return the part that a member's bytes are, by the group's protocol type; -1 if unknown."""
    if part >= op.CONNECT or _is_note(block, op.KIND, _CONSUMER):
        return part
    return op.CONNECT + part if _is_note(block, op.KIND, _CONNECT) else -1


@inlined
def _user_data_part(block: Machine, part: int) -> int:
    """Return the part that user data is, by the group's protocol; -1 if unknown."""
    if _is_note(block, op.PROTOCOL, _STREAM):
        return op.STREAMS + part
    if part == 0 and _is_note(block, op.PROTOCOL, _STICKY):
        return op.STICKY
    return op.COOPERATIVE if part == 0 and _is_note(block, op.PROTOCOL, _COOPERATIVE) else -1


@inlined
def _part_program(block: Machine, part: int, at: int, size: int) -> tuple[int, int]:
    """Return a part's program, and where it begins to read; `GIVE_UP` if there is none.

    The program is -1 if the part is written as bytes.
    """
    if size <= 0 or part < 0:
        return -1, at
    version = 0
    start = at
    if part < op.STREAMS:
        version = load_int16(at)
        start += 2
    elif part < op.STICKY:
        version = load_int32(at)
    if start > at + size or version < 0 or version >= op.VERSIONS:
        return -1, GIVE_UP
    called = get(block.parts, part * op.VERSIONS + version)
    return called, start if called >= 0 else GIVE_UP


@compiled
def _write_raw(at: int, size: int, out: int, room: int, block: Machine, is_wrapped: bool) -> int:
    """Write bytes as base64, or as an object that contains it."""
    if out + _SLACK > room:
        return NO_ROOM
    if is_wrapped:
        store_word(out, _RAW)
        out += 7
    out = _write_base64(at, size, out, room, block.standard, True)
    if is_wrapped and out >= 0:
        store_uint8(out, 0x7D)
        out += 1
    return out


@compiled
def _is_ascii(at: int, size: int) -> bool:
    bits = 0
    while size > 8:
        bits |= load_word(at)
        at += 8
        size -= 8
    return (bits | tail(at, size)) & _HIGH_BITS == 0


@compiled
def _note_topics(block: Machine, at: int, limit: int) -> int:
    """Note the positions of the topics in a Kafka Streams assignment; return the end.

    Kafka numbers topics from 0, and writes them in any order.
    """
    count, at = _length(at, limit, True, 0)
    if at < 0 or count < 0 or count > MOST_TOPICS:
        return GIVE_UP
    topics = block.topics
    for number in range(count):
        topics[number] = 0
    block.topic_count = count
    for _ in range(count):
        number = load_int32(at)
        start = at + 4
        if start > limit or number < 0 or number >= count:
            return GIVE_UP
        size, at = _length(start, limit, False, 0)
        if at < 0 or size < 0 or not _is_ascii(at, size):
            return GIVE_UP
        topics[number] = start
        at += size
    return at


@inlined
def _topic(block: Machine, number: int) -> int:
    """Return the address of a topic's length; 0 if no topic has the number."""
    if number < 0 or number >= block.topic_count:
        return 0
    return block.topics[number]


@inlined
def _null(out: int) -> int:
    store_word(out, _NULL)
    return out + 4


@inlined
def _string(
    at: int,
    limit: int,
    out: int,
    room: int,
    block: Machine,
    is_compact: int,
    is_nullable: int,
    note: int,
) -> tuple[int, int]:
    """Write a string, and note its position; return the next positions of input and output."""
    size, at = _length(at, limit, False, is_compact)
    if at < 0 or size > _MAX_STRING or (size < 0 and is_nullable == 0):
        return at, GIVE_UP
    if note >= 0:
        block.note_start[note] = at
        block.note_size[note] = size
    if size < 0:
        return at, _null(out)
    return at + size, write_string(at, size, out, room)


@inlined
def _integer(at: int, limit: int, out: int, size: int, is_unsigned: int) -> tuple[int, int]:
    if size == 4:
        value = load_int32(at)
    elif size == 8:
        value = load_int64(at)
    elif size == 2:
        value = load_int16(at)
        if is_unsigned:
            value &= 0xFFFF
    else:
        value = load_uint8(at)
        value -= (value & 0x80) << 1
    at += size
    if at > limit:
        return at, GIVE_UP
    return at, write_integer(value, out)


@compiled
def _uncommon(
    operation: int, a: int, b: int, at: int, limit: int, out: int, room: int, block: Machine
) -> tuple[int, int]:
    """Write a value of a rare type."""
    if operation == op.UUID:
        if at + 16 > limit:
            return at, GIVE_UP
        return at + 16, _write_base64(at, 16, out, room, block.url, False)
    if operation == op.BYTES:
        size, at = _length(at, limit, True, a)
        if at < 0 or (size < 0 and b == 0):
            return at, GIVE_UP
        if size < 0:
            return at, _null(out)
        return at + size, _write_raw(at, size, out, room, block, False)
    if operation == op.TRAILING:
        if at >= limit:
            return at, out
        copy_block(out, block.texts + a)
        return limit, _write_raw(at, limit - at, out + b, room, block, False)
    if operation == op.ASCII:
        size, at = _length(at, limit, a == 1, 0)
        if at < 0 or size < 0 or not _is_ascii(at, size):
            return at, GIVE_UP
        return at + size, write_string(at, size, out, room)
    if operation == op.NO_NAME:
        return at + 4, _null(out) if load_int32(at) == 0 else GIVE_UP
    if operation == op.TOPICS:
        at = _note_topics(block, at, limit)
        return at, out if at >= 0 else GIVE_UP
    topic = _topic(block, load_int32(at)) if operation == op.TOPIC else 0
    if topic == 0:
        return at, GIVE_UP
    return at + 4, write_string(topic + 2, load_int16(topic), out, room)


@inlined
def _array(
    at: int, limit: int, out: int, block: Machine, depth: int, is_compact: int, is_nullable: int
) -> tuple[int, int, int]:
    """Begin an array; return the next positions, and the depth, unchanged if the array is empty."""
    size, at = _length(at, limit, True, is_compact)
    if at < 0 or (size < 0 and is_nullable == 0) or depth + 4 > STACK_SIZE:
        return at, GIVE_UP, depth
    if size < 0:
        return at, _null(out), depth
    if size == 0:
        store_word(out, _EMPTY_ARRAY)
        return at, out + 2, depth
    store_uint8(out, 0x5B)
    block.stack[depth] = size
    return at, out + 1, depth + 1


@compiled
def _tags(
    operation: int, a: int, b: int, c: int, ip: int, at: int, limit: int, block: Machine, depth: int
) -> tuple[int, int, int]:
    """Process tagged fields; return the next instruction, the next position and the depth.

    The stack has the number of fields left, the number of the last field, and its end.
    """
    stack = block.stack
    if operation == op.TAGS:
        size, at = _length(at, limit, False, 1)
        if at < 0 or depth + 4 > STACK_SIZE:
            return ip, GIVE_UP, depth
        stack[depth] = size + 1
        stack[depth + 1] = -2
        stack[depth + 2] = at
        return ip, at, depth + 3
    if operation == op.IF_TAG:
        return c if stack[depth - 2] == a - 1 else ip, at, depth
    end = stack[depth - 1]
    if operation == op.NOT:
        is_default = end - at == b and equal(at, block.texts + a, b)
        return ip, GIVE_UP if is_default else at, depth
    left = stack[depth - 3]
    if at != end:
        return ip, GIVE_UP, depth
    if left == 0:
        return a, at, depth - 3
    tag, at = _length(at, limit, False, 1)
    if at < 0 or tag <= stack[depth - 2]:
        return ip, GIVE_UP, depth
    size, at = _length(at, limit, False, 1)
    if at < 0:
        return ip, GIVE_UP, depth
    stack[depth - 3] = left - 1
    stack[depth - 2] = tag
    stack[depth - 1] = at + size + 1
    return ip, at, depth


@compiled
def _open_part(
    operation: int, part: int, at: int, size: int, out: int, room: int, block: Machine
) -> tuple[int, int, int]:
    """Begin a part of a member; return its program (-1 if none) and the next positions.

    A part without a program is written as bytes.
    """
    is_member = operation == op.MEMBER
    part_number = _member_part(block, part) if is_member else _user_data_part(block, part)
    called, start = _part_program(block, part_number, at, size)
    if size < 0:
        return -1, at, GIVE_UP if is_member and part < op.CONNECT else _null(out)
    if start < 0:
        return -1, at, GIVE_UP
    if called < 0:
        return -1, at + size, _write_raw(at, size, out, room, block, is_member)
    return called, start, out


@compiled
def _rest(
    operation: int,
    a: int,
    b: int,
    c: int,
    ip: int,
    at: int,
    limit: int,
    out: int,
    room: int,
    block: Machine,
    depth: int,
) -> tuple[int, int, int, int, int]:
    """Execute an operation that is rare in `run`; return the new values of its variables."""
    if operation == op.MEMBER or operation == op.USER_DATA:
        size, at = _length(at, limit, True, a)
        if at < 0 or depth + 4 > STACK_SIZE:
            return ip, at, limit, GIVE_UP, depth
        end = at + size
        called, at, out = _open_part(operation, b, at, size, out, room, block)
        if called < 0:
            return ip, at, limit, out, depth
        block.stack[depth] = ip
        block.stack[depth + 1] = limit
        return called, at, end, out, depth + 2
    if operation == op.MAYBE:
        value = load_uint8(at)
        if a and value > 1:
            return ip, at, limit, GIVE_UP, depth
        if value == 0 if a else value >= 0x80:
            return c, at + 1, limit, _null(out), depth
        return ip, at + 1, limit, out, depth
    if operation == op.TAGS or (operation >= op.NEXT_TAG and operation <= op.NOT):
        ip, at, depth = _tags(operation, a, b, c, ip, at, limit, block, depth)
        return ip, at, limit, out if at >= 0 else GIVE_UP, depth
    at, out = _uncommon(operation, a, b, at, limit, out, room, block)
    return ip, at, limit, out, depth


@inlined
def _fixed(out: int, text: int, size: int) -> int:
    copy_block(out, text)
    for done in range(BLOCK, size, BLOCK):
        copy_block(out + done, text + done)
    return out + size


@compiled
def run(ip: int, at: int, limit: int, out: int, room: int, block: Machine) -> int:
    """Run a program on the bytes from `at` to `limit`, which it must consume completely.

    `ip` is the program's first instruction and `block` the machine. The text is written from `out`
    on, and notes are stored in the block. Returns the end of the text, `GIVE_UP` or `NO_ROOM`.
    """
    code = block.code
    texts = block.texts
    stack = block.stack
    depth = 0
    while out >= 0:
        instruction = code + 8 * op.WORDS * ip
        operation = get(instruction, 0)
        a = get(instruction, 1)
        b = get(instruction, 2)
        c = get(instruction, 3)
        text = texts + get(instruction, 4)
        text_size = get(instruction, 5)
        ip += 1
        # a fixed-size value may end up to 16 bytes after the limit; the next check finds it
        if at > limit:
            return GIVE_UP
        if out + text_size + _SLACK > room:
            return NO_ROOM
        out = _fixed(out, text, text_size)
        if operation == op.TEXT:
            continue
        if operation == op.STRING:
            at, out = _string(at, limit, out, room, block, a, b, c)
        elif operation == op.INT:
            at, out = _integer(at, limit, out, a, b)
        elif operation == op.ARRAY:
            before = depth
            at, out, depth = _array(at, limit, out, block, depth, a, b)
            ip = c if depth == before else ip
        elif operation == op.NEXT:
            left = stack[depth - 1] - 1
            stack[depth - 1] = left
            store_uint8(out, 0x2C if left > 0 else 0x5D)
            out += 1
            ip = a if left > 0 else ip
            depth -= left <= 0
        elif operation == op.NO_TAGS:
            out = out if at < limit and load_uint8(at) == 0 else GIVE_UP
            at += 1
        elif operation == op.END:
            if at != limit or depth == 0:
                return out if at == limit else GIVE_UP
            depth -= 2
            ip = stack[depth]
            limit = stack[depth + 1]
        elif operation == op.JUMP or (operation == op.IF_LEFT and at == limit):
            ip = a
        elif operation != op.IF_LEFT:
            ip, at, limit, out, depth = _rest(
                operation, a, b, c, ip, at, limit, out, room, block, depth
            )
    return out
