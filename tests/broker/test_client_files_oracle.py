"""Java's properties files and JAAS texts, read by kgroup and by Java itself: case by case."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from kgroup.errors import UsageError
from kgroup.source.config.client_config import FOLLOWED, PASSED_OVER, UNFOLLOWED
from kgroup.source.config.client_setting import ClientSetting
from kgroup.source.config.properties_file import parse_properties
from kgroup.source.config.sasl import parse_jaas
from tests.broker.maven import compile_java, run_java

VERSION = "4.3.1"

PROPERTIES = [
    b"a=b",
    b"a:b\nc d\ne   =   f  \ng\t:\th\ni\fj",
    b"# comment = x\n  ! another\n \t# third \\\nkey=value",
    b"a\\ b=c\\=d\na\\:b=c:d=e\n\\#x=y\n\\!x=y",
    b"long=one,\\\n    two,\\\r\n\tthree\\\r  four\nnext=1",
    b"path=C:\\\\dir\\\\file\nodd=a\\\\\\\nb\neven=a\\\\\nc=d",
    b"tab=\\t nl=\\n cr=\\r ff=\\f other=\\q\\x",
    b"unicode=\\u00e9\\u4e2d \\ud83d\\ude00 \\u0041",
    b"latin=\xe9\xff\xa0",
    b"utf8=\xc3\xa9",
    b"empty\nempty2=\nempty3:\n=novalue\n:novalue2\n   =x",
    b"twice=1\ntwice=2",
    b"a==b\nc=:d\ne : = f\ng= =h",
    b"end=backslash\\",
    b"blank=\\\n\nnext=1",
    b"\\\n# not a comment? = 1\nx=1",
    b"\\\n  indented=1",
    b"   \\\n\n  a=1",
    b"\n\r\n\r  \n a = 1 \r b = 2 \r\n",
    b"bad=\\u12",
    b"bad=\\u12g4",
    b"worse=\\u 123",
    b"k\\u003dey=v",
    b"x=\\u005cn",
    b"a\\\n  b=c\nd=\\\n   \\\n  e",
]

JAAS = [
    'Plain required username="alice" password="secret";',
    "Plain REQUIRED username=alice password=secret ;",
    "a.b.C\n  Sufficient\n\tuser='x y' pass='it\\'s' ;  ",
    'M optional a="b\\"c" d="e\\\\f" g="\\n\\t\\101\\7\\400\\q";',
    'M requisite a="x;y=z" b="//no comment" c="/*neither*/";',
    'M required // a comment\n a="1" /* another\n one */ b="2";',
    'M required a="1" / rest of line = "x";\n b="2";',
    "M required a=1;",
    "M required a=-1;",
    "M required a=x1-y.z_$;",
    'M required a="1" b = "2" c ="3" d= "4";',
    'M required "quoted"="1" \'single\'="2";',
    'M required a="1"',
    'M required a="1" b;',
    'M required a="1" b=;',
    'M required a= "1" ="2";',
    "M required;",
    "M;",
    "M",
    "",
    "   ",
    'M perhaps a="1";',
    'M required a="1"; N required b="2";',
    'M required a="1"; trailing',
    'M required a="unterminated;',
    'M required a="over\nlines";',
    'M required a="é中😀" é="x";',
    "M required a=é中;",
    "M required a=@home;",
    'M required a="1" a="2";',
    "M required a=b/c;",
    'M required a="b"c="d";',
    "M required a='x\"y' b=\"x'y\";",
    'M required a="";',
]


@pytest.fixture(scope="module")
def java() -> Callable[[Sequence[str]], list[str]]:
    source = Path(__file__).parent / "java" / "ClientFiles.java"
    classes = compile_java([source], VERSION)

    def ask(lines: Sequence[str]) -> list[str]:
        name = "org.apache.kafka.common.security.ClientFiles"
        done = run_java(VERSION, name, [], input="\n".join(lines).encode(), classes=classes)
        return done.stdout.decode().split("\n")[:-1]

    return ask


def test_reads_as_java_does(java: Callable[[Sequence[str]], list[str]]) -> None:
    properties = [*PROPERTIES, *_random_properties(400)]
    texts = [*JAAS, *_random_jaas(400)]
    answers = java(
        [
            "keys",
            *(f"properties {b64encode(data).decode()}" for data in properties),
            *(f"jaas {b64encode(text.encode()).decode()}" for text in texts),
        ]
    )
    assert len(answers) == 1 + len(properties) + len(texts)
    assert set(_words(answers[0])) <= FOLLOWED | PASSED_OVER | UNFOLLOWED
    for data, answer in zip(properties, answers[1:], strict=False):
        assert (data, _our_properties(data)) == (data, _java_pairs(answer))
    readable = 0
    for text, answer in zip(texts, answers[1 + len(properties) :], strict=True):
        ours = _our_jaas(text)
        readable += ours is not None
        assert (text, ours) == (text, None if answer == "error" else _words(answer))
    assert readable > 60


def _our_properties(data: bytes) -> dict[str, str] | None:
    try:
        entries = list(parse_properties(data.decode("latin-1")))
    except UsageError:
        return None
    # Lone surrogates have no UTF-8; Java writes a question mark for them.
    return {key: _sent(value) for _, key, value in entries if key}


def _java_pairs(answer: str) -> dict[str, str] | None:
    if answer == "error":
        return None
    words = _words(answer)
    pairs = zip(words[::2], words[1::2], strict=True)
    return {key: value for key, value in pairs if key}  # a last line of \\ alone makes one without


def _our_jaas(text: str) -> list[str] | None:
    try:
        module = parse_jaas(ClientSetting("test.jaas", text, "test"))
    except UsageError:
        return None
    options = sorted(module.options.items(), key=lambda item: item[0].encode("utf-16-be"))
    return [module.name, *("".join(text) for option in options for text in option)]


def _words(answer: str) -> list[str]:
    return [b64decode(word[1:]).decode() for word in answer.split()]


def _sent(value: str) -> str:
    return value.replace("\ufffd", "?")


def _random_properties(count: int) -> list[bytes]:
    random = Random(4)
    alphabet = [
        b"a",
        b"b",
        b"=",
        b":",
        b" ",
        b"\t",
        b"\f",
        b"\\",
        b"\n",
        b"\r",
        b"#",
        b"!",
        b"\xe9",
    ]
    alphabet += [b"\\u0041", b"\\\n", b"\\\\", b"\\u", b"\r\n"]
    weights = [6, 6, 3, 2, 3, 1, 1, 3, 3, 1, 1, 1, 1, 1, 2, 1, 0.2, 1]
    return [
        b"".join(random.choices(alphabet, weights, k=random.randint(1, 30))) for _ in range(count)
    ]


def _random_jaas(count: int) -> list[str]:
    random = Random(4)
    alphabet = [
        "a",
        "B",
        "=",
        '"',
        "'",
        "\\",
        " ",
        "\n",
        ";",
        "/",
        "//",
        "/*",
        "*/",
        "1",
        "-",
        ".",
        "é",
    ]
    texts = []
    for _ in range(count):
        pairs = []
        for _ in range(random.randint(0, 3)):
            inner = "".join(random.choices(alphabet, k=random.randint(0, 6)))
            quote = random.choice(["", '"', "'", '"', '"'])
            pairs.append(f"{random.choice('xyz')}={quote}{inner}{quote}")
        texts.append(f"M required {' '.join(pairs)};{random.choice(['', '', ' ', ' x', '//'])}")
    return texts
