"""Where settings of a connection come from, which is the strongest, what is said of bad ones."""

from __future__ import annotations

import json
import pickle
import traceback
from collections.abc import Mapping
from pathlib import Path

import pytest

from kgroup.errors import ExitStatus, InputError, KgroupError, UsageError
from kgroup.redaction import forget_secrets, redact
from kgroup.source.config import client_setting
from kgroup.source.config.client_config import ClientConfig, client_config
from kgroup.source.config.client_setting import Secret
from kgroup.source.config.properties_file import parse_properties
from kgroup.source.config.user_file import LARGEST_FILE
from tests.broker.key_stores import FOLDER

SECRET = "s3kret"
JAAS = "org.apache.kafka.common.security.{}.{} required {};"
PLAIN = JAAS.format("plain", "PlainLoginModule", f'username="alice" password="{SECRET}"')
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


def read(settings: Mapping[str, str], folder: Path, *overrides: str) -> ClientConfig:
    """Read a properties file with these settings."""
    file = folder / "client.properties"
    whole = {"bootstrap.servers": "one:9093", **settings}
    file.write_text("".join(f"{key}={value}\n" for key, value in whole.items()))
    return client_config(environment={}, command_config=file, overrides=overrides)


def test_the_strongest_wins(tmp_path: Path) -> None:
    toml = tmp_path / "config.toml"
    toml.write_text('[profiles.p]\nbootstrap-server = "profile:1"\n')
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")
    profile = {"KGROUP_CONFIG": str(toml), "KGROUP_PROFILE": "p"}

    def server(environment: Mapping[str, str], **rest: object) -> str:
        config = client_config(environment=environment, **rest)  # type: ignore[arg-type]
        return config.bootstrap_servers[0]

    environment = {**profile, "KGROUP_BOOTSTRAP_SERVER": "environment:1"}
    override = {"command_config": file, "overrides": ["bootstrap.servers=override:1"]}
    assert server(profile) == "profile:1"
    assert server({"KGROUP_CONFIG": str(toml)}, profile="p") == "profile:1"
    assert server(environment) == "environment:1"
    assert server(environment, command_config=file) == "file:1"
    assert server(environment, **override) == "override:1"
    assert server(environment, **override, bootstrap_server="flag:1") == "flag:1"


def test_other_settings_of_the_profile_stay_under_a_flag(tmp_path: Path) -> None:
    (tmp_path / "p.properties").write_text("client.id=file\nrequest.timeout.ms=7\nretries=3\n")
    toml = tmp_path / "config.toml"
    toml.write_text(
        '[profiles.p]\nbootstrap-server = "a:1"\ncommand-config = "p.properties"\n'
        '[profiles.p.properties]\nclient.id = "table"\n"reconnect.backoff.ms" = 9\n'
    )
    environment = {"KGROUP_CONFIG": str(toml), "KGROUP_BOOTSTRAP_SERVER": "b:2"}
    config = client_config(environment=environment, profile="p")
    assert config.kafka_options() == {
        "bootstrap_servers": ["b:2"],
        "security_protocol": "PLAINTEXT",
        "client_id": "table",
        "client_dns_lookup": "use_all_dns_ips",
        "request_timeout_ms": 7,
        "reconnect_backoff_ms": 9,
    }
    assert config.notes == (
        f"bootstrap.servers ($KGROUP_BOOTSTRAP_SERVER) is stronger than profile 'p' of {toml}",
    )
    flag = client_config(environment=environment, profile="p", bootstrap_server="c")
    assert (flag.bootstrap_servers, flag.notes) == (("c:9092",), ())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a", ("a:9092",)),
        (" a:1 ,b:2,, ", ("a:1", "b:2")),
        ("[::1]:9093,[fe80::1%eth0]", ("[::1]:9093", "[fe80::1%eth0]:9092")),
        ("PLAINTEXT://a:1", ("a:1",)),
    ],
)
def test_bootstrap_servers(written: str, expected: tuple[str, ...]) -> None:
    config = client_config(environment={}, bootstrap_server=written)
    assert config.bootstrap_servers == expected


@pytest.mark.parametrize(
    "written", ["a:b", "a:0", "a:65536", "::1", "a b", "[::1", ",", "a:1:2", "é:1"]
)
def test_bad_bootstrap_servers(written: str) -> None:
    with pytest.raises(
        UsageError, match=r"^bootstrap.servers \(--bootstrap-server\): expected HOST"
    ):
        client_config(environment={}, bootstrap_server=written)


def test_no_bootstrap_server() -> None:
    with pytest.raises(
        UsageError, match=r"bootstrap.servers is not set: choose --bootstrap-server"
    ):
        client_config(environment={})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security.protocol": "TLS"}, "expected PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"),
        ({"request.timeout.ms": "5s"}, "expected a whole number, found '5s'"),
        ({"client.dns.lookup": "never"}, "expected USE_ALL_DNS_IPS or"),
        ({**SASL, "sasl.mechanism": "SCRAM"}, "expected PLAIN or SCRAM-SHA-256 or"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"},
            "expected https, or nothing",
        ),
        (
            {"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"},
            "expected TLSv1.2 or TLSv1.3, found 'SSLv3'",
        ),
        (
            {"security.protocol": "SSL", "ssl.cipher.suites": "TLS_NONE_WITH_NULL"},
            "expected suites",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.type": "BKS"}, "expected JKS or PKCS12 or"),
    ],
)
def test_bad_values_are_told_with_their_place(
    settings: dict[str, str], message: str, tmp_path: Path
) -> None:
    key = list(settings)[-1]
    place = f"{key} ({tmp_path}/client.properties:{1 + len(settings)}): "
    with pytest.raises(UsageError) as caught:
        read(settings, tmp_path)
    assert str(caught.value).startswith(place + message)
    assert caught.value.exit_status is ExitStatus.USAGE
    with pytest.raises(UsageError) as caught:
        read({**settings, key: ""}, tmp_path, f"{key}={settings[key]}")
    assert str(caught.value).startswith(f"{key} (-X): {message}")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SASL, "sasl.jaas.config is not set: sasl.mechanism PLAIN needs a PlainLoginModule"),
        ({"security.protocol": "SASL_SSL"}, "sasl.kerberos.service.name is not set: GSSAPI"),
        (
            {**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": PLAIN},
            "expected OAuthBearerLoginModule for sasl.mechanism OAUTHBEARER",
        ),
        (
            {**SASL, "sasl.jaas.config": PLAIN[:-1]},
            "expected a semicolon at the end of the text, found none",
        ),
        (
            {**SASL, "sasl.jaas.config": PLAIN.replace(";", " =;")},
            f"or a semicolon, at character {len(PLAIN) + 1}, found some",
        ),
        ({**SASL, "sasl.jaas.config": PLAIN.replace("username", "user")}, "the option username of"),
        (
            {
                **SASL,
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": PLAIN.replace(";", ' tokenauth="TRUE";'),
            },
            "found a delegation token",
        ),
        (
            {**SASL, "sasl.mechanism": "AWS_MSK_IAM"},
            "sasl.mechanism AWS_MSK_IAM needs security.protocol SASL_SSL",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/a.jks"},
            "ssl.keystore.password is not set",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.password": SECRET},
            "ssl.truststore.location is not set",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.certificates": "x"},
            "ssl.truststore.type is not set",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": SECRET},
            "ssl.keystore.certificate.chain",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/a.pem",
                "ssl.keystore.password": SECRET,
            },
            "PEM has no store password",
        ),
    ],
)
def test_what_is_missing_or_contradicts(
    settings: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        read(settings, tmp_path)
    assert message in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_keys(tmp_path: Path) -> None:
    config = read(
        {
            "group.id": "g",
            "key.deserializer": "x",
            "sasl.username": SECRET,
            "ssl.key.location": SECRET,
            "producer.ssl.keystore.location": SECRET,
            "frobnicate": SECRET,
            "ssl.engine.factory.class": "a.B",
        },
        tmp_path,
        "config.providers.file.class=c.D",
    )
    file = f"{tmp_path}/client.properties"
    unknown = "is no setting of Kafka's clients; it has no effect"
    java = "is for Kafka's Java client; kgroup does not follow it"
    assert config.notes == (
        f"sasl.username ({file}:4) {unknown}",
        f"ssl.key.location ({file}:5) {unknown}; did you mean ssl.keystore.location?",
        f"producer.ssl.keystore.location ({file}:6) {unknown}; did you mean ssl.keystore.location?",
        f"frobnicate ({file}:7) {unknown}",
        f"ssl.engine.factory.class ({file}:8) {java}",
        f"config.providers.file.class (-X) {java}",
    )


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("security.protocl", "security.protocol"),
        ("Security.Protocol", "security.protocol"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("ssl.trustore.location", "ssl.truststore.location"),
    ],
)
def test_a_near_miss_of_a_setting_of_security(key: str, meant: str, tmp_path: Path) -> None:
    message = rf"is no setting of Kafka's clients; did you mean {meant}\?$"
    with pytest.raises(UsageError, match=rf"^{key} \(-X\) {message}"):
        read({}, tmp_path, f"{key}=a")
    with pytest.raises(UsageError, match=rf"^{key} \(.*client.properties:2\) {message}"):
        read({key: SECRET}, tmp_path)


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        (SASL | {"security.protocol": ""}, ["sasl.* {} PLAINTEXT (the default)"]),
        ({"ssl.keystore.location": "a"}, ["ssl.* {} PLAINTEXT (the default)"]),
        (
            {"sasl.mechanism": "PLAIN", "ssl.truststore.type": "PEM"},
            ["sasl.* and ssl.* {} PLAINTEXT (the default)"],
        ),
        ({"sasl.mechanism": "PLAIN", "security.protocol": "SSL"}, ["sasl.* {} SSL (-X)"]),
        ({"ssl.endpoint.identification.algorithm": "", "ssl.protocol": "TLS"}, []),
    ],
)
def test_settings_of_security_without_effect(
    settings: dict[str, str], notes: list[str], tmp_path: Path
) -> None:
    overrides = [f"{key}={value}" for key, value in settings.items()]
    text = "settings have no effect: security.protocol is"
    assert read({}, tmp_path, *overrides).notes == tuple(note.format(text) for note in notes)
    of_zookeeper = client_config(environment={}, overrides=overrides, needs_server=False)
    assert of_zookeeper.notes == ()


def test_a_malformed_escape_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read({"ssl.key.password": rf"{SECRET}\u12"}, tmp_path)
    place = f"{tmp_path}/client.properties:2: "
    assert str(caught.value).startswith(f"{place}expected four hexadecimal digits after \\u")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("overrides", [[SECRET], [f"={SECRET}"], ["a=b", SECRET]])
def test_bad_overrides_are_not_shown(overrides: list[str]) -> None:
    with pytest.raises(
        UsageError, match=r"^-X.*: expected KEY=VALUE, found no key or no =$"
    ) as caught:
        client_config(environment={}, bootstrap_server="a", overrides=overrides)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (None, "expected a profile 'p', found none. To add it, run: kgroup profile add p -b HOST"),
        ("[profiles.prod]\n", "expected a profile 'p', found none; it has prod"),
        ("", "expected a profile 'p', found none. To add it, run: kgroup profile add p -b HOST"),
        ("x = [", "expected TOML: "),
        ("[profiles]\np = 1\n", "expected a table$"),
        ("[profiles.p]\nbootstrap = 'a'\n", "expected bootstrap-server, .*; found 'bootstrap'"),
        ("[profiles.p]\nbootstrap-server = ['a']\n", "bootstrap-server: expected a text"),
        ("[profiles.p]\ncommand-config = 'no.file'\n", "no.file: cannot read it: No such file"),
    ],
)
def test_bad_profiles(toml: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    if toml is not None:
        file.write_text(toml)
    with pytest.raises(KgroupError, match=message) as caught:
        client_config(environment={"KGROUP_CONFIG": str(file)}, profile="p")
    cannot_be_read = message.lower().endswith("no such file")
    assert isinstance(caught.value, InputError if cannot_be_read else UsageError)


def test_the_file_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first example of docs/connection.md is complete, and its password a reference."""
    page = (Path(__file__).parents[2] / "docs" / "connection.md").read_text("utf-8")
    example = page.partition("```properties\n")[2].partition("```")[0]
    example = example.replace("/etc/kafka/ca.pem", str(FOLDER / "ca.pem"))
    settings = {key: value for _, key, value in parse_properties(example)}
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    config = read(settings, tmp_path)
    options = config.kafka_options()
    assert config.notes == ()
    assert options["bootstrap_servers"] == ["kafka-1:9093", "kafka-2:9093"]
    assert (options["security_protocol"], options["sasl_mechanism"]) == (
        "SASL_SSL",
        "SCRAM-SHA-512",
    )
    assert options["sasl_plain_password"].encode() == SECRET.encode()


@pytest.mark.parametrize(
    ("mechanism", "name", "sent"),
    [("PLAIN", "a=b,c", "a=b,c"), ("SCRAM-SHA-512", "a=b,c", "a=3Db=2Cc")],
)
def test_login(mechanism: str, name: str, sent: str, tmp_path: Path) -> None:
    jaas = PLAIN.replace("alice", name)
    config = read({**SASL, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}, tmp_path)
    for shown in (repr(config), str(config.kafka_options()), f"{config.kafka_options()}"):
        assert SECRET not in shown
    options = pickle.loads(pickle.dumps(config)).kafka_options()
    assert options["sasl_mechanism"] == mechanism
    assert "".join(options["sasl_plain_username"]) == sent
    assert options["sasl_plain_password"].encode() == SECRET.encode()


def test_kerberos_and_aws_are_passed_through(tmp_path: Path) -> None:
    jaas = 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/k" serviceName="s";'
    kerberos = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas}
    config = read(kerberos, tmp_path)
    assert config.kafka_options()["sasl_mechanism"] == "GSSAPI"
    assert config.kafka_options()["sasl_kerberos_service_name"] == "s"
    assert len(config.notes) == 1
    config = read({**kerberos, "sasl.kerberos.service.name": "kafka"}, tmp_path)
    assert config.kafka_options()["sasl_kerberos_service_name"] == "kafka"
    aws = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": (
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        ),
    }
    config = read(aws, tmp_path)
    assert config.notes == ()
    assert config.kafka_options()["sasl_mechanism"] == "AWS_MSK_IAM"


def test_settings_for_zookeeper(tmp_path: Path) -> None:
    assert read({}, tmp_path).zookeeper_tls is None
    config = read(
        {
            "zookeeper.digest": f"alice:{SECRET}",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.endpoint.identification.algorithm": "",
            "zookeeper.ssl.enabled.protocols": "TLSv1.2",
            "zookeeper.connect": "a broker's own file may be given",
        },
        tmp_path,
    )
    assert config.notes == ()
    assert "".join(config.zookeeper_digest or "") == f"alice:{SECRET}"
    assert SECRET not in f"{config} {config.zookeeper_digest}"
    assert config.tls is None
    assert config.zookeeper_tls is not None
    assert config.zookeeper_tls.check_host_name is False
    assert len(set(config.zookeeper_tls.versions)) == 1


def test_wrong_settings_for_zookeeper_are_named_in_full(tmp_path: Path) -> None:
    enabled = {"zookeeper.ssl.client.enable": "true"}
    for settings, message in (
        ({"zookeeper.digest": SECRET}, "zookeeper.digest .*: expected USER:PASSWORD, found some"),
        ({"zookeeper.ssl.client.enable": "yes"}, "zookeeper.ssl.client.enable .*: expected TRUE"),
        (
            {**enabled, "zookeeper.ssl.truststore.type": "X"},
            "zookeeper.ssl.truststore.type .*: expected JKS or PKCS12 or PEM",
        ),
        (
            {**enabled, "zookeeper.ssl.enabled.protocols": "SSLv3"},
            "zookeeper.ssl.enabled.protocols .*: expected TLSv1.2 or TLSv1.3",
        ),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            read(settings, tmp_path)
        assert SECRET not in str(caught.value)


def test_behind_zookeeper_no_bootstrap_server_is_needed() -> None:
    config = client_config(environment={}, needs_server=False)
    assert config.bootstrap_servers == ()
    named = client_config(environment={}, overrides=["bootstrap.servers=a"], needs_server=False)
    assert named.bootstrap_servers == ("a:9092",)


def test_secret_texts_hide() -> None:
    secret = Secret(SECRET)
    for shown in (
        str(secret),
        repr(secret),
        f"{secret}",
        "%s %r" % (secret, secret),  # noqa: UP031 -- as logging does
        repr([secret]),
    ):
        assert SECRET not in shown
        assert "hidden" in shown
    assert "".join(secret) == SECRET
    assert "\0".join(["u", secret]).encode() == b"u\0s3kret"


# ---- secrets by reference


def in_place(place: str, settings: Mapping[str, str], folder: Path) -> ClientConfig:
    """Read settings given by -X, in a properties file, or in a profile."""
    if place == "-X":
        overrides = [f"{key}={value}" for key, value in settings.items()]
        return client_config(environment={}, bootstrap_server="a", overrides=overrides)
    if place == "file":
        return read(settings, folder)
    toml = folder / "config.toml"
    lines = [f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in settings.items()]
    toml.write_text(
        f'[profiles.p]\nbootstrap-server = "a"\n[profiles.p.properties]\n{"".join(lines)}'
    )
    return client_config(environment={"KGROUP_CONFIG": str(toml)}, profile="p")


@pytest.mark.parametrize("place", ["-X", "file", "profile"])
@pytest.mark.parametrize("kind", ["env", "file", "cmd"])
def test_a_secret_by_reference(
    place: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    jaas = tmp_path / "jaas.conf"
    secret.write_text(f"{SECRET}\n")
    jaas.write_text(f"{PLAIN}\n")
    monkeypatch.setenv("APP_PW", SECRET)
    monkeypatch.setenv("APP_JAAS", PLAIN)
    password, whole = {
        "env": ("env:APP_PW", "env:APP_JAAS"),
        "file": (f"file:{secret}", f"file:{jaas}"),
        "cmd": (f"cmd:cat {secret}", f"cmd:sh -c 'cat {jaas}'"),
    }[kind]
    inner = JAAS.format("plain", "PlainLoginModule", f'username="alice" password="{password}"')
    for value in (inner, whole):
        config = in_place(place, {**SASL, "sasl.jaas.config": value}, tmp_path)
        assert config.kafka_options()["sasl_plain_password"].encode() == SECRET.encode()
        assert SECRET not in f"{config}"
        assert redact(f"the broker said {SECRET}") == "the broker said [hidden]"
        forget_secrets()


def test_only_secrets_in_use_are_read(tmp_path: Path) -> None:
    overridden = {"zookeeper.digest": "cmd:false", "ssl.key.password": "env:NO_SUCH_VARIABLE"}
    assert read(overridden, tmp_path, "zookeeper.digest=a:b").security_protocol == "PLAINTEXT"


def test_references_are_for_secrets_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_ID", "id")
    assert read({"client.id": "env:APP_ID"}, tmp_path).client_id == "env:APP_ID"


@pytest.mark.parametrize(
    ("reference", "message", "status"),
    [
        ("env:NO_SUCH_VARIABLE", "env:NO_SUCH_VARIABLE: expected a secret in this environment", 2),
        ("env:", "expected env:NAME, file:PATH or cmd:COMMAND, found env:", 2),
        ("file:/no/such/file", "file:/no/such/file: cannot read it: No such file or directory", 1),
        ("file:/dev/zero", f"file:/dev/zero: expected at most {LARGEST_FILE} bytes", 1),
        ("file:/dev/null", "file:/dev/null: expected a secret, found nothing", 2),
        ("cmd:no-such-program x", "cmd:no-such-program …: cannot run the command: No such file", 1),
        (f"cmd:sh -c 'echo {SECRET} >&2; exit 3'", "cmd:sh …: the command failed with exit sta", 1),
        (
            f"cmd:sh -c 'echo {SECRET}; exit 3'",
            "cmd:sh …: the command failed with exit status 3",
            1,
        ),
        ("cmd:sh -c 'kill -9 $$'", "cmd:sh …: the command failed with signal 9", 1),
        ("cmd:sleep 60", "cmd:sleep …: the command has not ended after 0.2 s", 1),
        ("cmd:sh -c 'exec >&-; sleep 1'", "cmd:sh …: the command has not ended after 0.2 s", 1),
        ("cmd:cat /dev/zero", f"cmd:cat …: expected at most {LARGEST_FILE} bytes", 1),
        ("cmd:printf '\\377'", "cmd:printf …: expected UTF-8 text, found other bytes", 2),
        ("cmd:echo '", "cmd:echo …: expected a command line: No closing quotation", 2),
        ("cmd:true", "cmd:true: expected a secret, found nothing", 2),
    ],
)
def test_a_reference_that_cannot_be_read(
    reference: str, message: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "0.2 s" in message:
        monkeypatch.setattr(client_setting, "COMMAND_TIMEOUT_S", 0.2)
    with pytest.raises(KgroupError) as caught:
        in_place("profile", {"zookeeper.digest": reference}, tmp_path)
    place = f"zookeeper.digest (profile 'p' of {tmp_path}/config.toml): "
    assert str(caught.value).startswith(place + message)
    assert caught.value.exit_status == status
    assert SECRET not in str(caught.value)


# ---- settings that are absurdly long, deep or elsewhere: each is an error that says so, at once


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
