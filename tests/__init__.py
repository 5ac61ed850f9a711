"""Tests, in the shape of the package; they run in UTC, in which the docs show times."""

from __future__ import annotations

import os
import time

os.environ["TZ"] = "UTC"
time.tzset()
