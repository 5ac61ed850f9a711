"""Source of a snapshot: a file with the answers of another source."""
