"""Convert whole segments to Arrow columns: chunks, columns, and calls of the compiled functions."""
