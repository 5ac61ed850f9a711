"""What is said where Spark does not start: parts of what Spark 4.2.1 and Java 17 wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.spark.session import java_trouble, reason_of_start

UNKNOWN_MASTER = """\
WARNING: Using incubator modules: jdk.incubator.vector
26/11/22 10:28:11 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark, k8s, or local
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
"""  # noqa: E501
NO_MASTER = """\
26/11/22 10:29:06 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 127.0.0.1:1
org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: java.io.IOException: Failed to connect to /127.0.0.1:1
\t... 4 more
26/11/22 10:27:33 WARN StandaloneAppClient$ClientEndpoint: Drop UnregisterApplication(null) because has not yet connected to master
"""  # noqa: E501
HEAP = """\
Invalid maximum heap size: -Xmx99999999999g
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""


@pytest.mark.parametrize(
    ("raised", "said", "reason"),
    [
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited.",
            UNKNOWN_MASTER,
            "Master must either be yarn or start with spark, k8s, or local",
        ),
        (
            "Cannot call methods on a stopped SparkContext.\nThis stopped",
            NO_MASTER,
            "Failed to connect to master 127.0.0.1:1",
        ),
        ("exited.", HEAP, "Invalid maximum heap size: -Xmx99999999999g"),
        ("exited.", "", "exited"),
        ("exited.", "a\n\tat b\n  c\n\n", "exited: a"),
    ],
)
def test_the_reason_is_said_and_no_line_of_a_trace(raised: str, said: str, reason: str) -> None:
    assert reason_of_start(RuntimeError(raised), said) == reason


@pytest.mark.parametrize(
    ("home", "trouble"),
    [
        (None, None),
        ("", None),  # bin/spark-class of Spark 4 looks for a text in it ([ -n ]), then for java
        ("/none", "Spark needs Java, and JAVA_HOME=/none has no bin/java"),
    ],
)
def test_java_is_looked_for_as_spark_does(
    home: str | None, trouble: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "java").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)
    assert java_trouble() == trouble
