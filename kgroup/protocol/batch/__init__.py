"""Batches of records: formats 0 to 2, compression, the search behind damage, transactions."""
