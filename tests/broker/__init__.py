"""Real Kafka brokers and ZooKeeper on loopback, for the tests that need them."""
