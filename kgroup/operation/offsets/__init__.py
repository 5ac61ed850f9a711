"""Offsets in any store: shown, compared, and changed by a plan that is shown first."""
