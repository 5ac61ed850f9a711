"""Committed offsets in any store: show, compare, and change them by a plan."""
