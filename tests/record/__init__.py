"""Recording of real `__consumer_offsets` data: brokers, clients, and what the broker answered.

`python -m tests.record` records every scenario again; `tests/data/README.md` tells what they are.
"""
