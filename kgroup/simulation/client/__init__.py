"""A consumer: its membership in a group, and the program around it."""
