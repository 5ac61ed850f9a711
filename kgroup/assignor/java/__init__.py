"""Iteration orders of Java's and Scala's hash tables."""
