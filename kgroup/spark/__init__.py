"""Spark: what runs in its executors, and the data source `kgroup`."""
