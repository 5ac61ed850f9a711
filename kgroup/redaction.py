"""The secrets in use, and how they are kept out of everything that is shown, stored or a name.

Whoever reads a secret calls `keep_secret`. Errors, problems, names of stores and lines on standard
error pass through `redact`, so that a server, a library or a URL cannot repeat a secret there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

HIDDEN = "[hidden]"

_LONG = 8
"""Characters from which a secret is hidden inside longer words too.

A shorter one is hidden as a whole word only: the password "kafka" is no part of "kafka-1:9092".
"""
_SHORT = 3
"""Characters up to which a secret is hidden only where it stands behind its name or in a URL.

Words and numbers of every message are that short.
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
"""A secret behind its name, as in properties, JAAS, a URL's query, libpq's settings and JSON; what
SQLAlchemy shows as `***` is hidden already. A value of JSON is in quotes: messages about a group
named "secret" have no value.
"""
_USERINFO = re.compile(r"(:/{1,2}[^/?#@:\s]*:)(?!(?:\*\*\*|PASSWORD)@)\S*@")
"""User and password in a URL, the password up to the last @; not those of examples.

Of a URL that was taken for a path one slash is left.
"""

_forms: set[str] = set()
_pattern: re.Pattern[str] | None = None


def is_secret(key: str) -> bool:
    """Return whether values of this key must not be shown."""
    return _SECRET_KEY.search(key) is not None


def keep_secret(secret: str) -> None:
    """Let `redact` hide a text from now on: as it is, escaped, percent-encoded and in base64."""
    global _pattern
    secret = "".join(secret).strip()  # a `Secret` gives its text by joining
    if len(secret) > _SHORT:
        _forms.update(_written(secret))
        lines = secret.split("\n")
        if len(lines) > 1:  # of PEM, whose marks are no secret
            _forms.update(
                re.escape(line) for line in lines if len(line) >= _LONG and line[0] != "-"
            )
        _pattern = None


def keep_userinfo(text: str) -> None:
    """Keep the passwords before an @: of a URL, or of what somebody takes for one."""
    for part in {text, *text.split(",")}:
        userinfo = "".join(part).rpartition("@")[0].rpartition("://")[2]
        for mark in re.finditer("[:/]", userinfo):
            keep_secret(userinfo[mark.end() :])


def keep_named_secrets(text: str) -> None:
    """Keep the secrets that stand behind their names: `password="..."`, `?token=...`."""
    for match in _NAMED.finditer("".join(text)):
        keep_secret(match[2].strip("\"'"))


def keep_environment(environment: Mapping[str, str]) -> None:
    """Keep the secrets that libraries take from the environment: proxies', databases', AWS's."""
    for name, value in environment.items():
        if "@" in value and "://" in value:
            keep_userinfo(value)
        elif is_secret(name) and name not in ("PWD", "OLDPWD") and len(value) >= _LONG:
            keep_secret(value)


def forget_secrets() -> None:
    """Begin anew, as a process does."""
    global _pattern
    _forms.clear()
    _pattern = None


def redact(text: str) -> str:
    """Hide the secrets in use in a text, and whatever in it looks like the secret of a URL."""
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
    """Give patterns of all ways in which a secret may be written."""
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
    # In base64 of a longer text, such as "user:password": what does not depend on its neighbours.
    for before in range(3):
        code = b64encode(bytes(before) + data).decode()
        inner = code[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(inner) >= _LONG:
            inner = re.escape(inner).replace(r"\+", "[+-]").replace("/", "[/_]")
            # From the start of the word only: a search from each of its letters takes too long.
            yield f"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]*{inner}[A-Za-z0-9+/_-]*=*"
