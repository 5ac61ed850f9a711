"""Operations: plain functions on a group source that return a report."""
