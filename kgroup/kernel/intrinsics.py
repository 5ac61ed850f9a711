"""Machine operations that compiled decoders need and that numba does not offer.

Memory is passed as an address (int64), not as a numpy array: numba counts references wherever an
array is passed, which costs more than the decoding. There are unaligned big-endian loads, stores,
and copies, each of them one instruction or call. Nothing here checks bounds: the callers do. They
also keep `PADDING` (`memory`) bytes readable, and writable if they write, after every buffer, so
that a load or store of a block may extend past its end.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from kgroup.kernel.memory import layout

_INT8, _INT16, _INT32, _INT64, _INT128 = (ir.IntType(bits) for bits in (8, 16, 32, 64, 128))
_Builder = Any
_F = TypeVar("_F", bound=Callable[..., object])

BLOCK = 32
"""Bytes that are copied or compared at once."""
_BYTES = ir.VectorType(_INT8, BLOCK)

LINE = 64
"""Bytes of a cache line."""


def _intrinsic(build: Callable[..., Any], result: Any = types.int64) -> Any:
    """Return an intrinsic on integers, given the function that builds its code."""

    def typed(typing_context: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: _Builder, signature: Any, arguments: Any) -> Any:
            value = build(builder, *arguments)
            return context.get_dummy_value() if result is types.void else value

        return result(*[types.int64] * len(arguments)), generate

    typed.__signature__ = signature(build)  # type: ignore[attr-defined]  # numba asks how many there are
    return intrinsic(typed)


def record_at(kind: Any) -> Any:
    """Return an intrinsic that casts an address to a record with a layout of `memory`."""
    record = from_dtype(layout(kind))

    def typed(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: _Builder, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(record))

        return record(types.int64), generate

    return intrinsic(typed)


def _load(width: Any, signed: bool, swap: bool) -> Any:
    """Return an intrinsic that loads `width` from an unaligned address."""

    def load(builder: _Builder, address: Any) -> Any:
        pointer = builder.inttoptr(address, width.as_pointer())
        value = builder.load(pointer, align=1)
        if swap:
            value = builder.bswap(value)
        if width.width == 64:
            return value
        return builder.sext(value, _INT64) if signed else builder.zext(value, _INT64)

    return _intrinsic(load)


load_uint8: Callable[[int], int] = _load(_INT8, signed=False, swap=False)
load_int16: Callable[[int], int] = _load(_INT16, signed=True, swap=True)
load_int32: Callable[[int], int] = _load(_INT32, signed=True, swap=True)
load_int64: Callable[[int], int] = _load(_INT64, signed=True, swap=True)
load_native16: Callable[[int], int] = _load(_INT16, signed=True, swap=False)
load_native32: Callable[[int], int] = _load(_INT32, signed=True, swap=False)
load_word: Callable[[int], int] = _load(_INT64, signed=True, swap=False)
"""Load eight bytes, little-endian."""


def _store(width: Any) -> Any:
    """Return an intrinsic that stores the low bits of a value, little-endian."""

    def store(builder: _Builder, address: Any, value: Any) -> Any:
        pointer = builder.inttoptr(address, width.as_pointer())
        stored = value if width.width == 64 else builder.trunc(value, width)
        builder.store(stored, pointer, align=1)

    return _intrinsic(store, types.void)


store_uint8: Callable[[int, int], None] = _store(_INT8)
store_word: Callable[[int, int], None] = _store(_INT64)
store_native16: Callable[[int, int], None] = _store(_INT16)
store_native32: Callable[[int, int], None] = _store(_INT32)


def _get(builder: _Builder, address: Any, index: Any) -> Any:
    # gep, not a sum of integers, so that the compiler sees adjacent words in a loop
    words = builder.inttoptr(address, _INT64.as_pointer())
    return builder.load(builder.gep(words, [index]), align=1)


get: Callable[[int, int], int] = _intrinsic(_get)
"""Load the word with an index at an address."""


def _put(width: Any) -> Any:
    """Return an intrinsic that stores the low bits of a value as the number with an index."""

    def put(builder: _Builder, address: Any, index: Any, value: Any) -> Any:
        numbers = builder.inttoptr(address, width.as_pointer())
        stored = value if width.width == 64 else builder.trunc(value, width)
        builder.store(stored, builder.gep(numbers, [index]), align=1)

    return _intrinsic(put, types.void)


put: Callable[[int, int, int], None] = _put(_INT64)
put_native32: Callable[[int, int, int], None] = _put(_INT32)


def _copy(intrinsic_name: str) -> Any:
    """Return an intrinsic that copies bytes with an LLVM intrinsic."""

    def copy(builder: _Builder, target: Any, source: Any, size: Any) -> Any:
        pointer = _INT8.as_pointer()
        function = builder.module.declare_intrinsic(intrinsic_name, [pointer, pointer, _INT64])
        builder.call(
            function,
            [
                builder.inttoptr(target, pointer),
                builder.inttoptr(source, pointer),
                size,
                ir.Constant(ir.IntType(1), 0),
            ],
        )

    return _intrinsic(copy, types.void)


copy: Callable[[int, int, int], None] = _copy("llvm.memcpy")
"""Copy bytes (target, source, size); the ranges must not overlap."""
move: Callable[[int, int, int], None] = _copy("llvm.memmove")
"""Copy bytes (target, source, size); the ranges may overlap."""


def _read_at(builder: _Builder, file: Any, target: Any, size: Any, position: Any) -> Any:
    pointer = _INT8.as_pointer()
    kind = ir.FunctionType(_INT64, [_INT32, pointer, _INT64, _INT64])
    function = cgutils.get_or_insert_function(builder.module, kind, "pread")
    return builder.call(
        function, [builder.trunc(file, _INT32), builder.inttoptr(target, pointer), size, position]
    )


read_at: Callable[[int, int, int, int], int] = _intrinsic(_read_at)
"""Read from a file (descriptor, target, size, position): C's `pread`."""


def _copy_block(builder: _Builder, target: Any, source: Any) -> Any:
    block = builder.load(builder.inttoptr(source, _BYTES.as_pointer()), align=1)
    builder.store(block, builder.inttoptr(target, _BYTES.as_pointer()), align=1)


copy_block: Callable[[int, int], None] = _intrinsic(_copy_block, types.void)
"""Copy a block (target, source)."""


def _everywhere(builder: _Builder, number: Any, numbers: Any) -> Any:
    """Return a vector with a number in all elements."""
    first = builder.insert_element(
        ir.Constant(numbers, ir.Undefined), number, ir.Constant(_INT32, 0)
    )
    places = ir.Constant(ir.VectorType(_INT32, numbers.count), None)
    return builder.shuffle_vector(first, first, places)


def _mix(builder: _Builder, left: Any, right: Any) -> Any:
    wide = [builder.zext(argument, _INT128) for argument in (left, right)]
    product = builder.mul(*wide)
    high = builder.trunc(builder.lshr(product, ir.Constant(_INT128, 64)), _INT64)
    return builder.xor(builder.trunc(product, _INT64), high)


def _trailing_zeros(builder: _Builder, value: Any) -> Any:
    return builder.cttz(value, ir.Constant(ir.IntType(1), 1))


trailing_zeros: Callable[[int], int] = _intrinsic(_trailing_zeros)
"""Count the trailing zero bits of a word other than 0."""


def _count_ones(builder: _Builder, value: Any) -> Any:
    return builder.ctpop(value)


count_ones: Callable[[int], int] = _intrinsic(_count_ones)
"""Count the bits of a word that are 1."""


def compiled(function: _F) -> _F:
    """Mark a function of integers for compilation; it runs without the GIL."""
    made: _F = njit(nogil=True, error_model="numpy")(function)
    return made


def inlined(function: _F) -> _F:
    """Mark a function of integers for compilation into each of its callers."""
    made: _F = njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return made


mix: Callable[[int, int], int] = _intrinsic(_mix)
"""Fold the 128-bit product of two words into one: the step of a fast hash of good quality."""


@inlined
def tail(at: int, size: int) -> int:
    """Return the last bytes of a string, up to eight, as a word."""
    word = load_word(at)
    if size < 8:
        word &= (1 << (8 * size)) - 1
    return word


def _prefetch(builder: _Builder, address: Any) -> Any:
    pointer = _INT8.as_pointer()
    function = builder.module.declare_intrinsic(
        "llvm.prefetch.p0", fnty=ir.FunctionType(ir.VoidType(), [pointer, _INT32, _INT32, _INT32])
    )
    hints = [ir.Constant(_INT32, number) for number in (0, 3, 1)]
    builder.call(function, [builder.inttoptr(address, pointer), *hints])


prefetch: Callable[[int], None] = _intrinsic(_prefetch, types.void)
"""Prefetch a line of memory into the processor's cache."""


def _unlike(builder: _Builder, left: Any, right: Any) -> Any:
    left, right = (
        builder.load(builder.inttoptr(argument, _BYTES.as_pointer()), align=1)
        for argument in (left, right)
    )
    bits = builder.bitcast(builder.icmp_unsigned("!=", left, right), ir.IntType(BLOCK))
    return builder.zext(bits, _INT64)


_unlike_bytes: Callable[[int, int], int] = _intrinsic(_unlike)
"""Return a bit for each byte that differs between two blocks."""


def _odd(builder: _Builder, address: Any) -> Any:
    block = builder.load(builder.inttoptr(address, _BYTES.as_pointer()), align=1)
    control, quote, backslash = (ir.Constant(_BYTES, [byte] * BLOCK) for byte in (0x20, 0x22, 0x5C))
    # also true for non-ASCII bytes, which are negative
    odd = builder.icmp_signed("<", block, control)
    odd = builder.or_(odd, builder.icmp_signed("==", block, quote))
    odd = builder.or_(odd, builder.icmp_signed("==", block, backslash))
    return builder.zext(builder.bitcast(odd, ir.IntType(BLOCK)), _INT64)


odd_bytes: Callable[[int], int] = _intrinsic(_odd)
"""Return a bit for each byte of a block that JSON must escape or that is not ASCII."""


def _flagged(builder: _Builder, address: Any, flag: Any) -> Any:
    block = builder.load(builder.inttoptr(address, _BYTES.as_pointer()), align=1)
    flags = _everywhere(builder, builder.trunc(flag, _INT8), _BYTES)
    bits = builder.icmp_unsigned("!=", builder.and_(block, flags), ir.Constant(_BYTES, None))
    return builder.zext(builder.bitcast(bits, ir.IntType(BLOCK)), _INT64)


flagged_bytes: Callable[[int, int], int] = _intrinsic(_flagged)
"""Return a bit for each byte of a block that has a flag."""


@inlined
def equal(left: int, right: int, size: int) -> bool:
    """Return whether the bytes at two addresses are equal."""
    # most are names of at most one block; their length takes no branch
    while size > BLOCK:
        if _unlike_bytes(left, right) != 0:
            return False
        left += BLOCK
        right += BLOCK
        size -= BLOCK
    return _unlike_bytes(left, right) & ((1 << size) - 1) == 0


def _crc_step(builder: _Builder, crc: Any, word: Any) -> Any:
    function = builder.module.declare_intrinsic(
        "llvm.x86.sse42.crc32.64.64", fnty=ir.FunctionType(_INT64, [_INT64, _INT64])
    )
    return builder.call(function, (crc, word))


_crc32c_word: Callable[[int, int], int] = _intrinsic(_crc_step)
"""Add a word to a CRC-32C, before its final inversion."""


def _multiply(builder: _Builder, left: Any, right: Any) -> Any:
    pair = ir.VectorType(_INT64, 2)
    first = ir.Constant(_INT32, 0)
    factors = [
        builder.insert_element(ir.Constant(pair, None), argument, first)
        for argument in (left, right)
    ]
    function = builder.module.declare_intrinsic(
        "llvm.x86.pclmulqdq", fnty=ir.FunctionType(pair, [pair, pair, _INT8])
    )
    product = builder.call(function, [*factors, ir.Constant(_INT8, 0)])
    return builder.extract_element(product, first)


_multiply_polynomials: Callable[[int, int], int] = _intrinsic(_multiply)
"""Return the product of two 32-bit polynomials."""


def _has_crc_instructions() -> bool:
    """Return whether the processor that numba compiles for has SSE 4.2 and PCLMULQDQ."""
    from numba.core.registry import cpu_target

    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return triple.startswith("x86_64") and {"+sse4.2", "+pclmul"} <= set(features.split(","))


def _tables(polynomial: int) -> Any:
    """Return the tables of a reflected CRC-32 for eight bytes per step (slicing by 8)."""
    first = np.arange(256, dtype=np.int64)
    for _ in range(8):
        first = np.where(first & 1, first >> 1 ^ polynomial, first >> 1)
    tables = [first]
    for _ in range(7):
        tables.append(tables[-1] >> 8 ^ first[tables[-1] & 0xFF])
    return np.concatenate(tables)


def _table_crc(polynomial: int) -> Callable[[int, int], int]:
    table = _tables(polynomial)

    def crc(address: int, size: int) -> int:
        value = 0xFFFFFFFF
        end = address + size
        while end - address >= 8:
            word = load_word(address) ^ value
            value = (
                table[1792 + (word & 0xFF)]
                ^ table[1536 + ((word >> 8) & 0xFF)]
                ^ table[1280 + ((word >> 16) & 0xFF)]
                ^ table[1024 + ((word >> 24) & 0xFF)]
                ^ table[768 + ((word >> 32) & 0xFF)]
                ^ table[512 + ((word >> 40) & 0xFF)]
                ^ table[256 + ((word >> 48) & 0xFF)]
                ^ table[(word >> 56) & 0xFF]
            )
            address += 8
        while address < end:
            value = value >> 8 ^ table[(value ^ load_uint8(address)) & 0xFF]
            address += 1
        return value ^ 0xFFFFFFFF

    return crc


_CASTAGNOLI = 0x82F63B78
_LANE = 64


def _passing(size: int) -> int:
    """Return the factor by which a CRC-32C is multiplied to append `size` zero bytes.

    The product has twice as many bits, minus one. Reducing it with the CRC instruction, as if it
    were a word of the message, multiplies it by x^32; the factor compensates for that and for the
    bit.
    """
    power = 1 << 31
    for _ in range(8 * size - 33):
        power = power >> 1 ^ (_CASTAGNOLI if power & 1 else 0)
    return power


_PASSING = np.array([_passing(8 * words) for words in range(2 * _LANE // 8 + 1)])
"""Factors by number of zero words."""


def _instruction_crc32c(address: int, size: int) -> int:
    value = 0xFFFFFFFF
    # steps depend on each other: three lanes take the time of one, and are then combined
    while size >= 24:
        lane = min(size // 24 * 8, _LANE)
        second = 0
        third = 0
        for at in range(address, address + lane, 8):
            value = _crc32c_word(value, load_word(at))
            second = _crc32c_word(second, load_word(at + lane))
            third = _crc32c_word(third, load_word(at + 2 * lane))
        first = _multiply_polynomials(value, _PASSING[lane >> 2])
        second = _multiply_polynomials(second, _PASSING[lane >> 3])
        value = _crc32c_word(0, first ^ second) ^ third
        address += 3 * lane
        size -= 3 * lane
    while size >= 8:
        value = _crc32c_word(value, load_word(address))
        address += 8
        size -= 8
    # the rest as a word with leading zeros, which have no effect while the value is 0
    missing = 4 * (8 - size)
    word = (load_word(address) ^ value) << missing << missing
    value = _crc32c_word(0, word) ^ (value >> (8 * size))
    return value ^ 0xFFFFFFFF


crc32 = compiled(_table_crc(0xEDB88320))
"""CRC-32 (zlib's polynomial) of `size` bytes at an address."""

crc32c = compiled(_instruction_crc32c if _has_crc_instructions() else _table_crc(_CASTAGNOLI))
"""CRC-32C (Castagnoli) of `size` bytes at an address; uses CRC instructions if available."""
