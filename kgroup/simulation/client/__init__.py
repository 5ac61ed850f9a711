"""A consumer: its membership in a group, and the application around it."""
