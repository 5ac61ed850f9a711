import pytest

from kgroup.assignor.java.java_hash import string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("Hello World", -862545276),  # as printed by Java
        ("polygenelubricants", -(1 << 31)),  # the well-known string with Integer.MIN_VALUE
        ("\U0001f600", 31 * 0xD83D + 0xDE00),  # two UTF-16 units, by the definition
        ("é", 0xE9),
    ],
)
def test_string_hash(text: str, expected: int) -> None:
    assert string_hash(text) == expected
