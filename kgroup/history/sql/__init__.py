"""SQL over the tables of a warehouse, and what all questions share."""
