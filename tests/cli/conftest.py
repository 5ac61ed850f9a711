from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kgroup.cli.main import status_of
from tests.cli.fake_cluster import cluster
from tests.cli.json_schemas import check_document

__all__ = ["Cli", "Result", "cli", "cluster"]

Cli = Callable[..., "Result"]


@dataclass(frozen=True)
class Result:
    """What a command line came to.

    Attributes:
        status: exit status.
        out: standard output.
        err: standard error.
    """

    status: int
    out: str
    err: str


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command line in this process, through the error boundary, without any default.

    A JSON document that it writes has to be as its schema says.
    """
    for name in ("BOOTSTRAP_SERVER", "CONFIG", "PROFILE", "WAREHOUSE"):
        monkeypatch.delenv(f"KGROUP_{name}", raising=False)

    def run(*args: object) -> Result:
        capfdbinary.readouterr()
        status = status_of([str(arg) for arg in args])
        out, err = capfdbinary.readouterr()
        if "json" in args and out:
            check_document(out)
        return Result(status, out.decode(), err.decode())

    return run
