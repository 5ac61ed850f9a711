"""Bringing a warehouse up to date: records become rows, by tasks that run anywhere."""
