"""Servers on loopback that speak the protocols of object stores."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.broker.process import HOST, free_port


@contextmanager
def server(port: int, *command: str) -> Iterator[None]:
    """Run a module of Python's that serves a port."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 60
        while True:
            with suppress(OSError), socket.create_connection((HOST, port), 1):
                break
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def s3_server() -> Iterator[str]:
    """Run a server of S3; yield what follows the path in a URI."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "kgroup")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "swordfish")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with server(port, "moto.server", "-H", HOST, "-p", str(port)):
            yield f"?endpoint_override={HOST}%3A{port}&scheme=http&region=us-east-1"


@contextmanager
def gcs_server(bucket: str) -> Iterator[str]:
    """Run a server of GCS with a bucket; yield what follows the path in a URI."""
    port = free_port()
    with server(port, "tests.broker.gcs_emulator", str(port), bucket):
        yield f"?endpoint_override={HOST}%3A{port}&scheme=http"
