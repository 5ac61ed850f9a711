"""Rebalances: what moved, why, and whether they came as storms."""
