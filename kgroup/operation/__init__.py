"""Plain functions on a source; each returns a report."""
