"""Input of a build: segments and live partitions, and the splits that tasks read."""
