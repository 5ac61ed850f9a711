"""Build a warehouse: tasks, which can run on other machines, turn records into rows."""
