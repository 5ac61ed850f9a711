"""Names for static members (`group.instance.id`), as far as a group tells programs apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter

from kgroup.errors import UsageError
from kgroup.model.group import Member

FIELDS = ("client", "host", "number")
"""What a template may have in braces: a member's `client.id`, its host, and its place, from 1."""
_LONGEST = 249
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")
_TEMPLATES = ("{client}", "{client}-{host}", "{client}-{number}")
_WHY = {
    "{client}": "client ids, each of which one member has",
    "{client}-{host}": "client ids and hosts, as members share client ids",
    "{client}-{number}": "client ids and numbers, as members share client ids and hosts",
}


def proposed(
    members: Mapping[str, Member], template: str | None = None
) -> tuple[Mapping[str, str], str]:
    """Name members that have no instance id, and keep the ids of the others.

    Without a template the first of client, client and host, client and number is taken that tells
    all apart. Of a client id or a host, what no instance id may have becomes "-".

    Args:
        members: by name.
        template: as a user writes it: "{client}-{host}".

    Returns:
        Instance ids by name, and what they are made of; with a template they may be alike.

    Raises:
        UsageError: the template is none.
    """
    if template is not None:
        _check(template)
        return _made(members, template), f"--instance-id {template}"
    for each in _TEMPLATES:
        found = _made(members, each)
        if len(set(found.values())) == len(found):
            break
    return found, _WHY[each]


def why_unfit(ids: Mapping[str, str]) -> str | None:
    """Say why some of these cannot be members' ids; None where each can (`Topic.validate`)."""
    named: dict[str, list[str]] = {}
    for name, each in ids.items():
        named.setdefault(each, []).append(name)
    for each, names in named.items():
        if len(names) > 1:
            return f"{each!r} would be the id of {', '.join(names)}"
        if not 0 < len(each) <= _LONGEST or each in (".", "..") or _ILLEGAL.search(each):
            return (
                f"{each!r} of {names[0]} is none: expected 1 to {_LONGEST} letters, digits, "
                "'.', '_' or '-'"
            )
    return None


def _check(template: str) -> None:
    expected = f"expected a text with {', '.join(f'{{{each}}}' for each in FIELDS)} in it"
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise UsageError(f"--instance-id: {expected}, found {template!r}: {error}") from None
    for text, field, form, conversion in parts:
        plain = field in FIELDS and not form and not conversion
        if (field is not None and not plain) or _ILLEGAL.search(text):
            raise UsageError(
                f"--instance-id: {expected}, and else letters, digits, '.', '_' and '-', found "
                f"{template!r}"
            )


def _made(members: Mapping[str, Member], template: str) -> Mapping[str, str]:
    return {
        name: each.instance_id
        or template.format(
            client=_legal(each.client_id or "member"),
            host=_legal((each.client_host or "unknown").lstrip("/")),
            number=number,
        )
        for number, (name, each) in enumerate(members.items(), 1)
    }


def _legal(text: str) -> str:
    return _ILLEGAL.sub("-", text)
