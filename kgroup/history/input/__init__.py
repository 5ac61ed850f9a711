"""What a build reads: segments and live partitions, and the splits that tasks take."""
