"""The tables of a warehouse: columns, files, and the offsets of a log that they cover."""
