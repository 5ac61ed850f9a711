"""Source of a live ZooKeeper, which reads groups, changes their offsets, and deletes groups."""
