"""Who owned what, from when to when, derived from the records."""
