from __future__ import annotations

from tests.cli.fake_cluster import cluster as cluster
