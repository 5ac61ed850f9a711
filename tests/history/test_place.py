"""A live split can be sent to another process, with all that it needs to connect."""

from __future__ import annotations

import pickle

import pytest

from kgroup.history.place import OffsetRange
from kgroup.history.split import Split
from kgroup.source.client_config import client_config

LOGIN = "org.apache.kafka.common.security.{} required {};"
PASSWORD = 'username="kgroup" password="swordfish"'
SETTINGS = {
    "PLAIN": LOGIN.format("plain.PlainLoginModule", PASSWORD),
    "SCRAM-SHA-512": LOGIN.format("scram.ScramLoginModule", PASSWORD),
    "OAUTHBEARER": LOGIN.format(
        "oauthbearer.OAuthBearerLoginModule", 'unsecuredLoginStringClaim_sub="kgroup"'
    ),
}


@pytest.mark.parametrize("mechanism", SETTINGS)
def test_settings_travel_and_do_not_show(mechanism: str) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": SETTINGS[mechanism],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
    }
    config = client_config(
        environment={},
        bootstrap_server="kafka-1:9093",
        overrides=[f"{key}={value}" for key, value in settings.items()],
    )
    split = Split("c", 3, OffsetRange(5, 9, config), "__consumer_offsets-3", "live", 5)
    assert "swordfish" not in repr(split)
    found = pickle.loads(pickle.dumps(split))
    assert isinstance(found.place, OffsetRange)
    assert found == split
    sasl = found.place.config.sasl
    assert sasl is not None
    assert config.sasl is not None
    if mechanism != "OAUTHBEARER":
        assert sasl.kafka_options()["sasl_plain_password"] == "swordfish"
        assert str(sasl.kafka_options()["sasl_plain_password"]) == "[hidden]"
