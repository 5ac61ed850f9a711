"""A live ZooKeeper: read and, where offsets of groups are to be changed, written."""
