"""Contents of Kafka's ZooKeeper nodes: single nodes, whole trees, groups, topic filters."""
