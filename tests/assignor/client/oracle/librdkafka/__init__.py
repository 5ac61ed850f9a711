"""librdkafka, in wheels of confluent-kafka, as leader of groups on a broker of the tests."""
