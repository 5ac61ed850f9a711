"""Settings of all tests: property tests try the same cases every time, and watch no clock."""

from hypothesis import settings

settings.register_profile("kgroup", deadline=None, derandomize=True)
settings.load_profile("kgroup")
