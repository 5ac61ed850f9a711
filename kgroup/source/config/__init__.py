"""Settings of a Kafka client: where they are read, what they mean, TLS and SASL from them."""
