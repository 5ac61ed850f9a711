"""Settings for a Spark that has little to do: most of its time would be spent on compiling."""

from __future__ import annotations

from collections.abc import Mapping

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""Options of a JVM."""

QUICK: Mapping[str, str] = {
    "spark.driver.defaultJavaOptions": JAVA,
    "spark.executor.defaultJavaOptions": JAVA,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}

OPTIONS = [part for name, value in QUICK.items() for part in ("--spark-conf", f"{name}={value}")]
"""The same for a command line."""
