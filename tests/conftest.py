"""Settings of all tests: property tests try the same cases every time, and watch no clock."""

from hypothesis import settings

from tests.examples import examples

settings.register_profile("kgroup", deadline=None, derandomize=True, max_examples=examples(25))
settings.load_profile("kgroup")
