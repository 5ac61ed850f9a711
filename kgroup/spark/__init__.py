"""Spark: tasks in its executors, and the data source `kgroup`."""
