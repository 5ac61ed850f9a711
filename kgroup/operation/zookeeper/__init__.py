"""What only the ZooKeeper consumer has: its nodes, its fetchers."""
