"""Decoded records in every form."""
