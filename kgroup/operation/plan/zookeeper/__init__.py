"""Plans for groups of consumers that live on ZooKeeper."""
