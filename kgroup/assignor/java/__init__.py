"""The orders in which Java's and Scala's hash tables are walked."""
