"""Whole segments to Arrow columns: chunks, columns, and what drives the compiled functions."""
