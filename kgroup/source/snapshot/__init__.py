"""A file in which another source's answers were kept."""
