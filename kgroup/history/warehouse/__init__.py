"""The tables of a warehouse: their columns, their files, and what of a log they cover."""
