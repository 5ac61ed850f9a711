"""A secret in every place that takes one, and all that is written searched for it."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from kgroup.errors import KgroupError, ProblemKind
from kgroup.model.offset import StoreName
from kgroup.model.problem import Problem
from kgroup.redaction import keep_secret, keep_userinfo, redact
from tests.cli.command_line import Cli
from tests.source.fake_broker import fake_broker

CORE = "tr0ub4dor"
"""What no output may have; without a sign that anything would encode."""
SECRET = f"{CORE}/n3v3r+shown%"
CODED = quote(SECRET, safe="")
NOBODY = "127.0.0.1:1"
"""Where nobody listens."""

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
JAAS = f'{PLAIN} username="app" password="{SECRET}";'
PEM = f"-----BEGIN PRIVATE KEY----- {SECRET}AAAA -----END PRIVATE KEY-----"
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
ENDPOINT = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    f"sasl.login.callback.handler.class={HANDLER}\n"
)
ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
URL = "sasl.oauthbearer.token.endpoint.url"

SETTINGS = {
    "PLAIN": f"{SASL}sasl.jaas.config={JAAS}",
    "SCRAM-SHA-256": f'{SASL}sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={SCRAM} username="a" '
    f'password="{SECRET}";',
    "SCRAM-SHA-512": f'{SASL}sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={SCRAM} username="a" '
    f'password="{SECRET}" tokenauth="true";',
    "GSSAPI": f"{SASL}sasl.mechanism=GSSAPI\nsasl.jaas.config=x.Krb5LoginModule required "
    f'serviceName="kafka" password="{SECRET}";',
    "AWS_MSK_IAM": f"{SASL}sasl.mechanism=AWS_MSK_IAM\nsasl.jaas.config=x.IAMLoginModule required "
    f'awsSecretKey="{SECRET}";',
    "OAUTHBEARER without a handler": f"{SASL}sasl.mechanism=OAUTHBEARER\n"
    f'sasl.jaas.config={OAUTH} clientSecret="{SECRET}";',
    "an endpoint with a user": f"{ENDPOINT}{URL}=https://app:{SECRET}@127.0.0.1:1/t\n"
    f"sasl.jaas.config={OAUTH};",
    "an endpoint with a token for a user": f"{ENDPOINT}{URL}=https://{SECRET}@127.0.0.1:1/t\n"
    f"sasl.jaas.config={OAUTH};",
    "an endpoint with a query": f"{ENDPOINT}{URL}=http://127.0.0.1:1/t?client_secret={CODED}\n"
    f'sasl.jaas.config={OAUTH} clientId="me" clientSecret="{SECRET}";',
    "an endpoint of another scheme": f"{ENDPOINT}{URL}=ftp://app:{SECRET}@h/t\n"
    f"sasl.jaas.config={OAUTH};",
    "an endpoint that is none": f"{ENDPOINT}{URL}=https://app:{SECRET}@[h/t\n"
    f"sasl.jaas.config={OAUTH};",
    "a client secret as a setting": f"{ENDPOINT}{URL}=http://127.0.0.1:1/t\n{ID}=me\n"
    f"{CLIENT_SECRET}={SECRET}\nsasl.jaas.config={OAUTH};",
    "JAAS of another mechanism": f"{SASL}sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={JAAS}",
    "JAAS without a semicolon": f"{SASL}sasl.jaas.config={JAAS[:-1]}",
    "JAAS without quotes": f"{SASL}sasl.jaas.config={PLAIN} username=app password={SECRET};",
    "JAAS with two modules": f"{SASL}sasl.jaas.config={JAAS} {JAAS}",
    "JAAS that begins with the password": f'{SASL}sasl.jaas.config="{SECRET}"',
    "JAAS in lines without backslashes": f"{SASL}sasl.jaas.config={PLAIN}\n  username=app\n"
    f'  password="{SECRET}";',
    "JAAS in one line of a file without": f'{SASL}username="app" password="{SECRET}";',
    "JAAS under a key with a slip": f"{SASL}sasl.jaas.confg={JAAS}",
    "the password as a mechanism": f"{SASL}sasl.mechanism=PLAIN password={SECRET}",
    "a file of one line": SECRET,
    "a bad escape behind it": f"ssl.key.password={SECRET}\nclient.id=\\u12",
    "a key of PEM": f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key={PEM}\n"
    "ssl.keystore.certificate.chain=x",
    "a key of PEM in lines": "security.protocol=SSL\nssl.keystore.key=\\\n-----BEGIN PRIVATE KEY"
    f"-----\n{SECRET}AAAA=\n-----END PRIVATE KEY-----",
    "passwords of stores": f"security.protocol=SSL\nssl.truststore.location=/no/such\n"
    f"ssl.truststore.password={SECRET}\nssl.keystore.location=/no/such\n"
    f"ssl.keystore.password={SECRET}\nssl.key.password={SECRET}",
    "a password without a store": f"security.protocol=SSL\nssl.truststore.password={SECRET}",
    "ZooKeeper's digest": f"zookeeper.digest=app:{SECRET}",
    "ZooKeeper's digest without a user": f"zookeeper.digest={SECRET}",
    "a registry of schemas": f"basic.auth.user.info=app:{SECRET}\n"
    f"schema.registry.url=http://app:{SECRET}@h",
    "brokers with a user": f"bootstrap.servers=app:{SECRET}@{NOBODY}",
    "brokers behind a scheme with a user": f"bootstrap.servers=SASL_SSL://app:{SECRET}@h:1",
}
"""Settings of a file; what a place is, and what stands there."""

SQL = {
    "no scheme": f"app:{SECRET}@host",
    "no scheme, a database": f"app:{SECRET}@host:5432/db",
    "a slash for the colon": f"app/{SECRET}@host:1521/db",
    "no slashes": f"postgresql:app:{SECRET}@host/db",
    "one slash": f"postgresql:/app:{SECRET}@host/db",
    "JDBC": f"jdbc:postgresql://app:{SECRET}@host/db",
    "JDBC's parameters": f"jdbc:mysql://host/db?user=app&password={SECRET}",
    "libpq's settings": f"host=127.0.0.1 user=app password={SECRET}",
    "ODBC's settings": f"Server=127.0.0.1;Uid=app;Pwd={SECRET};",
    "another database": f"oracle://app:{SECRET}@host/db",
    "another driver": f"postgresql+psycopg2://app:{CODED}@host/db",
    "no database": f"mysql://app:{CODED}@host",
    "not encoded": f"mysql://app:{SECRET}@host/db",
    "two @": f"mysql://app:{CODED}@x@host/db",
    "a port that is none": f"mysql://app:{CODED}@host:port/db",
    "nobody there": f"mysql://app:{CODED}@127.0.0.1:1/db",
    "nobody there, PostgreSQL": f"postgresql://app:{CODED}@127.0.0.1:1/db",
    "a parameter": f"postgresql://app@127.0.0.1:1/db?password={CODED}",
    "a parameter that no driver has": f"postgresql://app@127.0.0.1:1/db?auth={CODED}",
    "a parameter of SQLite": f"sqlite:///x.db?password={SECRET}",
    "SQLite with a host": f"sqlite://app:{SECRET}@host/x.db",
}

COMMANDS = {
    "describe": ("describe", "g"),
    "describe as JSON": ("describe", "g", "-o", "json"),
    "check": ("check", "g", "--nagios"),
    "check for Prometheus": ("check", "--all", "--prometheus"),
    "doctor": ("doctor", "-o", "json"),
    "snapshot": ("snapshot", "--all", "-f", "kept.json"),
    "offsets": ("offsets", "reset", "g", "--to-latest", "--execute", "--yes"),
    "plan": ("plan", "assignor", "range", "g"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def silent(cli: Cli, tmp_path: Path) -> Cli:
    """Runs a command line, and looks for the secret in all that it writes."""

    def run(*args: object) -> object:
        result = cli(*args, "--timeout", "0.3") if args[0] != "completion" else cli(*args)
        written = [result.out, result.err]
        for path in tmp_path.rglob("*"):
            written.append(str(path.relative_to(tmp_path)))
            if path.is_file() and not path.name.startswith("given"):
                written.append(path.read_bytes().decode("latin-1"))
        assert_hidden("\n".join(written))
        assert "Traceback" not in result.err
        assert "bug in kgroup" not in result.err
        assert result.status, "a command that says what is wrong"
        return result

    return run  # type: ignore[return-value]


def assert_hidden(text: str) -> None:
    """Look for the secret as it is, percent-encoded, and in base64 of whatever it is a part of."""
    for form in (CORE, quote(SECRET), quote_plus(SECRET), CODED):
        assert form.lower() not in text.lower()
    for before in range(3):
        code = b64encode(bytes(before) + CORE.encode()).decode()
        assert code[-(-before * 8 // 6) : (before + len(CORE)) * 8 // 6] not in text


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("place", ["PLAIN", "an endpoint with a query", "brokers with a user"])
def test_commands(silent: Cli, place: str, command: tuple[str, ...]) -> None:
    config = Path("given.properties")
    config.write_text(SETTINGS[place], "utf-8")
    server = () if "brokers" in place else ("-b", NOBODY)
    silent(*command, "--command-config", config, *server)


@pytest.mark.parametrize("place", SETTINGS)
def test_settings_in_a_file(silent: Cli, place: str) -> None:
    config = Path("given.properties")
    config.write_text(SETTINGS[place], "utf-8")
    server = () if "brokers" in place else ("-b", NOBODY)
    silent("describe", "g", "--command-config", config, *server)
    zookeeper = ("--zookeeper", NOBODY)
    silent("describe", "g", "--command-config", config, *zookeeper)


@pytest.mark.parametrize("place", SETTINGS)
def test_settings_as_options_and_in_a_profile(
    silent: Cli, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [line.partition("=") for line in SETTINGS[place].splitlines()]
    options = [word for key, equals, value in pairs for word in ("-X", f"{key}{equals}{value}")]
    silent("describe", "g", "-b", NOBODY, *options)
    file = Path("given.toml")
    monkeypatch.setenv("KGROUP_CONFIG", str(file))
    lines = [f"'{key}' = '{value}'" for key, _, value in pairs]
    for broken in ("", "x = = 1", f"password = {SECRET}", f"'{SECRET}", f"[{SECRET}"):
        text = "\n".join(["[profiles.p.properties]", *lines, broken])
        file.write_text(text, "utf-8")
        silent("describe", "g", "-b", NOBODY, "-C", "p")


@pytest.mark.parametrize("url", SQL.values(), ids=SQL)
def test_databases(silent: Cli, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    silent("offsets", "show", "g", "--sql", url)
    silent("offsets", "reset", "g", "--to-file", "x", "--sql", url, "--create-table")
    silent("offsets", "copy", f"sql:{url}", "kafka", "-b", NOBODY, "--group", "g")
    silent("offsets", "copy", "sample", url, "--all", "--create-table", "--execute", "--yes")
    silent("offsets", "diff", url, "sample", "--all")
    Path("given.url").write_text(url, "utf-8")
    silent("offsets", "show", "g", "--sql", "@given.url")
    monkeypatch.setenv("KGROUP_SQL_URL", url)
    silent("offsets", "show", "g", "--sql", "profile")
    monkeypatch.delenv("KGROUP_SQL_URL")
    monkeypatch.setenv("KGROUP_CONFIG", "given.toml")
    Path("given.toml").write_text(f"[profiles.p.sql]\nurl = '{url}'", "utf-8")
    silent("offsets", "show", "g", "--sql", "profile", "-C", "p")


@pytest.mark.parametrize(
    "args",
    [
        ("describe", "g", "-b", f"app:{SECRET}@{NOBODY}"),
        ("describe", "g", "-b", f"{NOBODY},app:{SECRET}@h:1"),
        ("describe", "g", "--zookeeper", f"app:{SECRET}@{NOBODY}/kafka"),
        ("offsets", "copy", f"kafka:app:{SECRET}@{NOBODY}", "sample", "--all"),
        ("offsets", "copy", f"zookeeper:app:{SECRET}@{NOBODY}", "sample", "--all"),
        ("decode-offsets", f"s3://app:{SECRET}@bucket/x"),
        ("decode-offsets", f"nothing://app:{SECRET}@bucket/x?secret_key={CODED}"),
        ("history", "build", f"nothing://app:{SECRET}@bucket/x", "--to", "kept"),
        ("describe", "g", "--log-dir", f"s3://app:{SECRET}@bucket/x"),
        ("describe", "g", "h", f"password={SECRET}", "--bad"),
        ("completion", f"password={SECRET}"),
    ],
)  # fmt: skip
def test_options(cli: Cli, args: tuple[str, ...], tmp_path: Path) -> None:
    result = cli(*args)
    assert_hidden("\n".join([result.out, result.err, *map(str, tmp_path.rglob("*"))]))
    assert result.status


def test_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://app:{SECRET}@proxy:3128")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", f"app:{SECRET}@h")
    for args in (("describe", "g"), ("describe", SECRET, "--log-dir", "/no/such")):
        result = cli(*args)
        assert result.status
        assert_hidden(result.out + result.err)


def test_folders_in_the_environment_are_no_passwords(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", "/no/such/folder")
    monkeypatch.setenv("OLDPWD", "/no/such")
    assert "/no/such/folder" in cli("describe", "g", "--log-dir", "/no/such/folder").err


class _Endpoint(HTTPServer):
    """Gives back what it was sent, in every field that an answer may have."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.headers["Authorization"]
            body = self.server.answer.replace("SENT", sent).replace("SECRET", SECRET)  # type: ignore[attr-defined]
            self.send_response(self.server.status)  # type: ignore[attr-defined]
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass


@pytest.fixture
def endpoint() -> Iterator[_Endpoint]:
    server = _Endpoint(("127.0.0.1", 0), _Endpoint.Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def refuse(secret: str) -> dict[str, object]:
    return {"error_code": 58, "error_message": f"no such user or password: {secret}"}


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (401, '{"error": "SECRET"}'),
        (401, '{"error": "invalid_client SENT"}'),
        (400, '{"error": "invalid_client", "error_description": "SECRET SENT"}'),
        (500, "SECRET SENT"),
        (200, "SECRET SENT"),
        (200, '{"access_token": ["SECRET"], "SENT": "SENT"}'),
        (200, '{"access_token": "SECRET SENT"}'),
    ],
)
def test_token_endpoints(silent: Cli, endpoint: _Endpoint, status: int, answer: str) -> None:
    endpoint.status, endpoint.answer = status, answer  # type: ignore[attr-defined]
    config = Path("given.properties")
    with fake_broker() as broker:
        broker.handlers |= {
            "SaslHandshake": lambda _: {"error_code": 0, "mechanisms": ["OAUTHBEARER"]},
            "SaslAuthenticate": lambda request: (
                refuse(request.auth_bytes.decode("latin-1").replace("\1", " ") + SECRET)
                | {"auth_bytes": b""}
            ),
        }
        text = (
            f"{ENDPOINT}{URL}=http://127.0.0.1:{endpoint.server_port}/t?client_secret={CODED}\n"
            f'sasl.jaas.config={OAUTH} clientId="me" clientSecret="{SECRET}";'
        )
        config.write_text(text, "utf-8")
        silent("describe", "g", "-b", broker.bootstrap, "--command-config", config)
        silent("describe", "g", "-b", broker.bootstrap, "--command-config", config, "-o", "json")


@pytest.mark.parametrize(
    "said", [SECRET, CODED, f"Basic {b64encode(f'app:{SECRET}'.encode()).decode()}", repr(SECRET)]
)
def test_brokers_that_repeat_the_password(silent: Cli, said: str) -> None:
    def authenticate(_: object) -> dict[str, object]:
        return {**refuse(said), "auth_bytes": b""}

    with fake_broker() as broker:
        broker.handlers |= {
            "SaslHandshake": lambda _: {"error_code": 0, "mechanisms": ["PLAIN"]},
            "SaslAuthenticate": authenticate,
        }
        config = Path("given.properties")
        config.write_text(SETTINGS["PLAIN"], "utf-8")
        for args in (("describe", "g"), ("describe", "g", "-o", "json"), ("doctor",)):
            silent(*args, "-b", broker.bootstrap, "--command-config", config)


def test_commands_that_are_printed(cli: Cli, tmp_path: Path) -> None:
    """A plan, a finding's command, the line that undoes a change, and the backup that it names."""
    database = tmp_path / "offsets.db"
    secrets = ("-X", f"sasl.jaas.config={JAAS}", "-X", f"{URL}=http://h/t?client_secret={CODED}")
    table = ("--sql", f"{database}")
    where = (*table, "--create-table", "--execute", "--yes", *secrets)
    offsets = tmp_path / "given.csv"
    for offset in (5, 7):
        offsets.write_text(f"orders,0,{offset}\n", "utf-8")
        result = cli("offsets", "import", offsets, "g", *where)
        assert result.status == 0, result.err
    assert "to undo this" in result.err
    written = [path.read_text("latin-1") for path in tmp_path.iterdir() if path.is_file()]
    names = [path.name for path in tmp_path.iterdir()]
    assert_hidden("\n".join([result.out, result.err, *written, *names]))
    for args in (
        ("plan", "assignor", "range", "order-service", "--sample", "-o", "json"),
        ("check", "--all", "--sample", "-o", "json"),
    ):
        result = cli(*args)
        assert_hidden(result.out + result.err)


def test_debug_tracebacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kgroup.cli import main

    def fail(args: object) -> int:
        keep_secret(SECRET)
        raise LookupError(f"no {SECRET} in {CODED}")

    monkeypatch.setenv("KGROUP_DEBUG", "1")
    monkeypatch.setattr(main, "status_of", fail)
    monkeypatch.setattr("os._exit", lambda status: None)
    main.run(["describe"])
    err = capsys.readouterr().err
    assert "LookupError: no [hidden] in [hidden]" in err
    assert_hidden(err)


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("kafka", "kafka-1:9092 refused kafka.", "kafka-1:9092 refused [hidden]."),
        ("n0t/shown+", "x n0t%2fshown%2b y", "x [hidden] y"),
        ("n0t-shown", f"Basic {b64encode(b'a:n0t-shown').decode()}", "Basic [hidden]"),
        ('a"b\\cdefg', '{"x": "a\\"b\\\\cdefg"}', '{"x": "[hidden]"}'),
        ("x", "http://x:80/y", "http://x:80/y"),
        ("", "postgresql://u:p@h/d", "postgresql://u:[hidden]@h/d"),
        ("", "postgresql://u:***@h/d", "postgresql://u:***@h/d"),
        ("", "a?token=1&x=2", "a?token=[hidden]&x=2"),
        ("", "{'client_secret': 'x'}", "{'client_secret': [hidden]}"),
        ("", "group 'secret': not-found: x", "group 'secret': not-found: x"),
        ("", "topic a=b, group x:y@z", "topic a=b, group x:y@z"),
    ],
)
def test_redaction(secret: str, text: str, shown: str) -> None:
    keep_secret(secret)
    assert redact(text) == shown
    assert str(KgroupError(text)) == shown
    assert Problem(ProblemKind.FAILED, text, path=text).reason == shown
    assert StoreName(text).where == shown


def test_passwords_before_an_at() -> None:
    keep_userinfo("app:s3cr:et@h:1,b:other@h:2")
    assert redact("s3cr:et other app h:1") == "[hidden] [hidden] app h:1"
