"""The records of one coordinator's topic: from key and value bytes to objects.

Wire layout (`CoordinatorRecordSerde`, big endian):

    key     type int16, then the key message of that type
    value   version int16, then the value message in that version; no value at all: a tombstone

Decoding never raises for any bytes: invalid bytes are returned as base64 under "raw", with the
reason under "error". As in Kafka, a message may end before its bytes do; trailing bytes are kept as
base64 under "trailing".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct
from typing import Any

from kgroup.protocol.message import codec, schema
from kgroup.protocol.message.primitives import DecodeError, base64_text

Decoded = dict[str, Any]

_NUMBER = Struct(">h")
_read_number = _NUMBER.unpack_from


class RecordFamily:
    """The record types of one topic; each coordinator's topic has its own numbering.

    Early-access releases of Kafka wrote values with another layout under the type and version
    numbers of the final one. Such a type has several layouts, newest first. The first layout that
    consumes all bytes is taken; older ones reject unknown tagged fields, which they never had.
    """

    def __init__(
        self,
        types: Mapping[int, str],
        folders: Mapping[str, tuple[str, ...]],
        raw_bytes: Collection[str] = (),
    ) -> None:
        """Create the decoder of these record types.

        Args:
            types: names of the types by the number at the start of their keys.
            folders: folders of `kgroup/schema` with each type's ``<name>Value``, newest layout
                first; the first folder also has its ``<name>Key``.
            raw_bytes: types whose bytes fields in values stay `bytes`.
        """
        self._types = types
        self._numbers = {name: number for number, name in types.items()}
        self._folders = folders
        self._raw_bytes = raw_bytes
        self._key_readers: dict[str, codec.Reader] = {}
        self._value_readers: dict[str, dict[int, tuple[codec.Reader, ...]]] = {}

    def decode_record(
        self, key: bytes | None, value: bytes | None
    ) -> tuple[str, Decoded | None, Decoded | None]:
        """Decode a record that is not a control record to its type, key and value."""
        name, decoded = self.decode_key(key)
        return name, decoded, self.decode_value(name, value)

    def decode_key(self, key: bytes | None) -> tuple[str, Decoded | None]:
        """Decode a key to the record's type and ``{"type": number, "data": {...}}``.

        The type is "Unknown" with ``{"type", "raw"}`` for a number without a schema, with
        ``{"type", "data": None, "raw", "error"}`` for invalid bytes, with None for no key.
        """
        if key is None:
            return "Unknown", None
        if type(key) is not bytes:
            key = bytes(key)
        size = len(key)
        if size < 2:
            return "Unknown", damaged("type", None, key, f"type: 2 bytes expected, {size} left")
        (number,) = _read_number(key)
        name = self._types.get(number)
        if name is None:
            return "Unknown", {"type": number, "raw": base64_text(key)}
        reader = self._key_readers.get(name) or self._make_key_reader(name)
        try:
            data, end = reader(key, 2, size)
        except DecodeError as error:
            return "Unknown", damaged("type", number, key, str(error))
        if end != size:
            return name, {"type": number, "data": data, "trailing": base64_text(key[end:])}
        return name, {"type": number, "data": data}

    def decode_value(self, name: str, value: bytes | None) -> Decoded | None:
        """Decode the value of a record of type `name` to ``{"version": int, "data": {...}}``.

        Return ``{"version", "data": None, "raw"}`` for a version without a schema, with an
        additional "error" for invalid bytes; None for a tombstone.
        """
        if value is None:
            return None
        if type(value) is not bytes:
            value = bytes(value)
        size = len(value)
        if size < 2:
            return damaged("version", None, value, f"version: 2 bytes expected, {size} left")
        (version,) = _read_number(value)
        readers = (self._value_readers.get(name) or self._make_value_readers(name)).get(version)
        if readers is None:
            return {"version": version, "data": None, "raw": base64_text(value)}
        decoded: Decoded | None = None
        for reader in readers:
            try:
                data, end = reader(value, 2, size)
            except DecodeError as error:
                decoded = decoded or damaged("version", version, value, str(error))
                continue
            if end == size:
                return {"version": version, "data": data}
            trailing = base64_text(value[end:])
            decoded = decoded or {"version": version, "data": data, "trailing": trailing}
        return decoded

    def encode_key(self, name: str, data: Mapping[str, Any]) -> bytes:
        """Encode a key of type `name` from the "data" that `decode_key` returns."""
        return _NUMBER.pack(self._numbers[name]) + codec.write(*self._key_schema(name), data)

    def encode_value(self, name: str, version: int, data: Mapping[str, Any]) -> bytes:
        """Encode a value of type `name` in its newest layout; see `decode_value`.

        Raises ValueError if a field is missing.
        """
        message = f"{self._folders[name][0]}/{name}Value"
        return _NUMBER.pack(version) + codec.write(message, version, data)

    def _key_schema(self, name: str) -> tuple[str, int]:
        message = f"{self._folders[name][0]}/{name}Key"
        return message, schema.versions(message)[0]

    def _make_key_reader(self, name: str) -> codec.Reader:
        reader = self._key_readers[name] = codec.reader(*self._key_schema(name))
        return reader

    def _make_value_readers(self, name: str) -> dict[int, tuple[codec.Reader, ...]]:
        """Return the readers of each version of a type's value, newest layout first."""
        if name not in self._numbers:
            return {}
        newest, *older = (f"{folder}/{name}Value" for folder in self._folders[name])
        readers = self._value_readers[name] = {
            version: (
                codec.reader(newest, version, raw_bytes=name in self._raw_bytes),
                *(codec.reader(shape, version, unknown_tags=False) for shape in older),
            )
            for version in schema.versions(newest)
        }
        return readers


def damaged(label: str, number: int | None, raw: bytes, error: str) -> Decoded:
    """Return a key ("type") or value ("version") whose bytes are invalid."""
    return {label: number, "data": None, "raw": base64_text(raw), "error": error}
