"""Answers about the past as sheets, pictures and pages."""
