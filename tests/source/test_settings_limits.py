"""Settings that are absurdly long, deep or elsewhere: each is an error that says so, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.errors import InputError, KgroupError, UsageError
from kgroup.source.config.client_config import client_config
from kgroup.source.config.properties_file import LARGEST_FILE, parse_properties

DIGITS = "7" * 5000


def refused(file: Path, text: str) -> str:
    """Read a properties file, or a profile "p", and give the message that refuses it."""
    file.write_text(text)
    is_profile = file.suffix == ".toml"
    with pytest.raises(KgroupError) as caught:
        client_config(
            environment={"KGROUP_CONFIG": str(file)} if is_profile else {},
            command_config=None if is_profile else file,
            profile="p" if is_profile else None,
        ).kafka_options()
    assert len(str(caught.value)) < 1000
    return str(caught.value)


@pytest.mark.parametrize("value", [DIGITS, "9223372036854775808"])
def test_a_number_that_is_no_long_of_java(value: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    text = refused(file, f"bootstrap.servers=a\nrequest.timeout.ms={value}\n")
    assert text.startswith(f"request.timeout.ms ({file}:2): expected a whole number up to 92233720")


def test_the_longest_number_and_any_zeros_before_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=a\nmetadata.max.age.ms={'0' * 5000}9223372036854775807\n")
    config = client_config(environment={}, command_config=file)
    assert config.timings == {"metadata_max_age_ms": (1 << 63) - 1}


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (f'"x" = {DIGITS}', "3: expected numbers of at most 1000 digits"),
        (f'"x" = -{DIGITS}', "3: expected numbers of at most 1000 digits"),
        (f'"x" = 0x{DIGITS}', " properties"),
        (f"x = {'[' * 3000}{']' * 3000}", "3: expected at most 20 levels"),
        (f"x = {'{a=' * 3000}1{'}' * 3000}", "3: expected at most 20 levels"),
        (f"{'a.' * 30_000}b = 1", "3: expected at most 20 levels"),
        ('"a" . ' * 30_000 + "b = 1", "3: expected at most 20 levels"),
        (f"x = 1\n[{'a.' * 30_000}b]", "4: expected at most 20 levels"),
    ],
)
def test_a_profile_beyond_its_limits(toml: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    text = refused(file, f'[profiles.p]\nbootstrap-server = "a"\nproperties.{toml}\n')
    if message == " properties":
        place = f"profile 'p' of {file}: x"
        assert text == f"{place}: expected a text or a whole number of 64 bits, found neither"
    else:
        assert text.startswith(f"{file}:{message}")


def test_texts_and_comments_of_a_profile_count_no_levels(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    deep = "[{" * 30 + "." * 30 + DIGITS
    texts = (f'"{deep}"', f"'{deep}'", f'"""\n{deep}\\""""', f"'''\n{deep}'''")
    lines = [f"# {deep}", "[profiles.p]", 'bootstrap-server = "a"', "[profiles.p.properties]"]
    lines += [f"key-{number} = {text}" for number, text in enumerate(texts)]
    file.write_text("\n".join([*lines, '"client.id" = "x"']))
    environment = {"KGROUP_CONFIG": str(file)}
    assert client_config(environment=environment, profile="p").client_id == "x"


@pytest.mark.slow
def test_a_value_continued_over_many_lines() -> None:
    text = "a=" + "x\\\n" * 300_000 + "y\nb=1\n"
    assert list(parse_properties(text)) == [(1, "a", "x" * 300_000 + "y"), (300_002, "b", "1")]


@pytest.mark.parametrize(
    ("path", "message"),
    [("~nobody-of-this-name/x", "found none for ~nobody-of-this-name"), ("a\0b", "found a NUL")],
)
def test_paths_that_no_file_has(path: str, message: str, tmp_path: Path) -> None:
    escaped = path.replace("\0", "\\u0000")
    store = f"bootstrap.servers=a\nsecurity.protocol=SSL\nssl.truststore.location={escaped}\n"
    text = refused(tmp_path / "client.properties", store)
    assert text.startswith("ssl.truststore.location ")
    assert message in text
    text = refused(tmp_path / "config.toml", f'[profiles.p]\ncommand-config = "{escaped}"\n')
    assert text.startswith("profile 'p' of ")
    assert message in text


def test_a_configuration_file_in_nobodys_home() -> None:
    environment = {"KGROUP_CONFIG": "~nobody-of-this-name/x"}
    with pytest.raises(UsageError, match=r"^\$KGROUP_CONFIG: .* found none for ~nobody-of"):
        client_config(environment=environment, profile="p")
    # Without a profile the file is not wanted.
    client_config(environment=environment, bootstrap_server="a")


def test_a_file_that_never_ends() -> None:
    with pytest.raises(InputError, match=f"/dev/zero: expected at most {LARGEST_FILE} bytes"):
        client_config(environment={}, command_config=Path("/dev/zero"))
