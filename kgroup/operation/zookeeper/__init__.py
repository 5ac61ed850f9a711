"""What only the ZooKeeper consumer has: its nodes, its fetchers, what is wrong with it."""
