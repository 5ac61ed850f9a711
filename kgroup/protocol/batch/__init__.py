"""Record batches: formats 0 to 2, compression, recovery after damage, transactions."""
