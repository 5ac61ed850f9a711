"""Tests of the side of Spark that needs no JVM."""
