"""librdkafka, in wheels of confluent-kafka, as leader of groups on a broker of the tests."""

from tests.assignor.client.oracle.librdkafka.ask import ask

__all__ = ["ask"]
