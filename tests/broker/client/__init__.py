"""Consumers of other libraries than Java's, as programs that join a group and say what they own."""
