"""Tests, in the shape of the package; in UTC, as the docs show times, and without a pager."""

from __future__ import annotations

import os
import time

os.environ["TZ"] = "UTC"
os.environ["PAGER"] = "cat"
time.tzset()
