"""Nulls in answers where their schema has none: Kafka's own clients refuse such answers too."""

from functools import cache
from typing import Any

__all__ = ["null_field"]


def null_field(answer: Any, version: int) -> str | None:
    """Name a field of an answer that is null and may not be; None where there is none."""
    kind: Any = type(answer)
    for name, is_nullable, has_fields in _looked_at(kind, version):
        value = getattr(answer, name)
        if value is None:
            if not is_nullable:
                return name
        elif has_fields:
            for each in value:
                if (inner := null_field(each, version)) is not None:
                    return f"{name}.{inner}"
    return None


@cache
def _looked_at(kind: Any, version: int) -> tuple[tuple[str, bool, bool], ...]:
    """Give the fields of a message that can be null, or hold others that can."""
    found = []
    for name, field in kind.fields.items():
        if not field.for_version_q(version):
            continue
        is_nullable = field.nullable_for_version_q(version)
        has_fields = field.is_struct_array() and bool(_looked_at(field.data_class, version))
        can_be_null = field.is_array() or field.type_str in ("string", "bytes")
        if has_fields or (can_be_null and not is_nullable):
            found.append((name, is_nullable, has_fields))
    return tuple(found)
