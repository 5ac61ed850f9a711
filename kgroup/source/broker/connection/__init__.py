"""Connections to brokers, and what their failures mean."""
