"""What ZooKeeper's nodes say of Kafka: single nodes, whole trees, groups, topic filters."""
