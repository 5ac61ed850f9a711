from __future__ import annotations

from tests.source.broker_answers import broker as broker
