"""A live ZooKeeper; nothing is written there."""
