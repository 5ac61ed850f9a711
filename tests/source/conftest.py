from tests.source.broker_answers import broker

__all__ = ["broker"]
