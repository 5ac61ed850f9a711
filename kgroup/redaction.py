"""Keep track of the secrets in use, and redact them from output, stored data and names.

Code that reads a secret calls `keep_secret`. Errors, problems, store names and lines on standard
error pass through `redact`, so that a secret repeated by a server, library or URL is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

HIDDEN = "[hidden]"

_LONG = 8
"""Minimum length of a secret that is also hidden inside longer words.

A shorter one is hidden as a whole word only: the password "kafka" is not hidden in "kafka-1:9092".
"""
_SHORT = 3
"""Maximum length of a secret that is hidden only after its name or in a URL.

Common words and numbers are that short.
"""

_NAME = (
    r"(?:passw(?:or)?d|pwd|passphrase|secret|token|credentials?|user\.info|digest"
    r"|(?:api|secret|private|access)[._-]?key|ssl\.keystore\.key|sasl\.jaas\.config)"
)
_SECRET_KEY = re.compile(f"{_NAME}$", re.IGNORECASE)
_NAMED = re.compile(
    rf"""({_NAME}(?:\s*=\s*|["']\s*:\s*(?=["'])))(?!\*\*\*)"""
    r"""("[^"]*"|'[^']*'|[^\s&;,"'()\[\]]+)""",
    re.IGNORECASE,
)
"""A secret after its name, as in properties, JAAS, URL queries, libpq settings and JSON. Values
that SQLAlchemy already shows as `***` do not match. A JSON value must be quoted, because messages
about a group named "secret" contain the name without a value.
"""
_USERINFO = re.compile(r"(:/{1,2}[^/?#@:\s]*:)(?!(?:\*\*\*|PASSWORD)@)\S*@")
"""User and password in a URL, up to the last @; placeholders of examples do not match.

One slash is enough: that is what remains of a URL that was parsed as a path.
"""

_forms: set[str] = set()
_pattern: re.Pattern[str] | None = None


def is_secret(key: str) -> bool:
    """Return whether values of this key must be hidden."""
    return _SECRET_KEY.search(key) is not None


def is_reference(value: str) -> bool:
    """Return whether the value of a secret key is a reference: env:NAME, file:PATH, cmd:COMMAND."""
    return "".join(value).startswith(("env:", "file:", "cmd:"))


def keep_secret(secret: str) -> None:
    """Make `redact` hide a text: verbatim, escaped, percent-encoded and in base64."""
    global _pattern
    secret = "".join(secret).strip()  # joining gives the text of a `Secret`
    if len(secret) > _SHORT:
        _forms.update(_written(secret))
        lines = secret.split("\n")
        if len(lines) > 1:  # PEM; its BEGIN and END lines are not secret
            _forms.update(
                re.escape(line) for line in lines if len(line) >= _LONG and line[0] != "-"
            )
        _pattern = None


def keep_userinfo(text: str) -> None:
    """Keep the passwords before an @ in a URL, or in text used as a URL."""
    for part in {text, *text.split(",")}:
        userinfo = "".join(part).rpartition("@")[0].rpartition("://")[2]
        for mark in re.finditer("[:/]", userinfo):
            keep_secret(userinfo[mark.end() :])


def keep_named_secrets(text: str) -> None:
    """Keep the secrets that follow their names: `password="..."`, `?token=...`."""
    for match in _NAMED.finditer("".join(text)):
        if not is_reference(secret := match[2].strip("\"'")):
            keep_secret(secret)


def keep_environment(environment: Mapping[str, str]) -> None:
    """Keep the secrets that libraries read from the environment: of proxies, databases and AWS."""
    for name, value in environment.items():
        if "@" in value and "://" in value:
            keep_userinfo(value)
        elif is_secret(name) and name not in ("PWD", "OLDPWD") and len(value) >= _LONG:
            keep_secret(value)


def forget_secrets() -> None:
    """Forget all secrets, as in a new process."""
    global _pattern
    _forms.clear()
    _pattern = None


def redact(text: str) -> str:
    """Hide the secrets in use in a text, and everything that looks like a secret in a URL."""
    global _pattern
    if _forms:
        if _pattern is None:
            _pattern = re.compile("|".join(sorted(_forms, key=len, reverse=True)), re.IGNORECASE)
        text = _pattern.sub(HIDDEN, text)
    if "@" in text:
        text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
    is_named = "=" in text or '":' in text or "':" in text
    return _NAMED.sub(rf"\1{HIDDEN}", text) if is_named else text


def _written(secret: str) -> Iterator[str]:
    """Yield patterns for all the ways in which a secret may be written."""
    import json
    from base64 import b64encode
    from urllib.parse import quote, quote_plus

    data = secret.encode(errors="surrogateescape")
    whole = b64encode(data).decode().rstrip("=")
    forms = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], whole}
    forms |= {quote(data), quote(data, safe=""), quote_plus(data)}
    for form in forms:
        word = re.escape(form)
        yield word if len(form) >= _LONG else rf"(?<![\w-]){word}(?![\w-]|\.\w)"
    # Inside base64 of a longer text, such as "user:password": the part independent of neighbours.
    for before in range(3):
        code = b64encode(bytes(before) + data).decode()
        inner = code[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(inner) >= _LONG:
            inner = re.escape(inner).replace(r"\+", "[+-]").replace("/", "[/_]")
            # Anchored at the start of the word: a search from each character takes too long.
            yield f"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]*{inner}[A-Za-z0-9+/_-]*=*"
