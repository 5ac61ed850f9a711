"""Rebalances: what they moved, why they happened, and rebalance storms."""
