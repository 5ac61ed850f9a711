"""Detection of responses that no Kafka broker sends; Kafka's own clients reject them too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, TypeVar

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import TopicPartition

Key = TypeVar("Key", str, TopicPartition)
T = TypeVar("T")


def only_asked(
    answers: Mapping[Key, T], asked: Collection[Key], api: str, broker: int | None = None
) -> dict[Key, T]:
    """Return the requested groups or partitions of a response; all of them must be present.

    Raises:
        BrokerError: one is missing.
    """
    try:
        return {key: answers[key] for key in asked}
    except KeyError as error:
        (key,) = error.args
        who = "the cluster" if broker is None else f"broker {broker}"
        name = key if isinstance(key, str) else f"{key[0]}-{key[1]}"
        text = f"{who} answered {api} without {name}"
        raise BrokerError(ProblemKind.UNUSABLE, text, broker, was_sent=True) from None


def null_field(answer: Any, version: int) -> str | None:
    """Return the name of a field that is null against its schema; None if there is none."""
    kind: Any = type(answer)
    for name, is_nullable, has_fields in _looked_at(kind, version):
        value = getattr(answer, name)
        if value is None:
            if not is_nullable:
                return name
        elif has_fields:
            for item in value if isinstance(value, list) else [value]:
                if (inner := null_field(item, version)) is not None:
                    return f"{name}.{inner}"
    return None


@cache
def _looked_at(kind: Any, version: int) -> tuple[tuple[str, bool, bool], ...]:
    """Return the fields of a message that may be null, or contain fields that may be."""
    names = []
    for name, field in kind.fields.items():
        if not field.for_version_q(version):
            continue
        is_nullable = field.nullable_for_version_q(version)
        is_struct = field.is_struct() or field.is_struct_array()
        has_fields = is_struct and bool(_looked_at(field.data_class, version))
        can_be_null = field.is_array() or field.type_str in ("string", "bytes")
        if has_fields or (can_be_null and not is_nullable):
            names.append((name, is_nullable, has_fields))
    return tuple(names)
