"""librdkafka, in wheels of confluent-kafka, as leader of groups on a broker of the tests."""

from __future__ import annotations

from tests.assignor.client.oracle.librdkafka.ask import ask as ask
