"""Migration plans: preconditions, steps, expected results and costs."""
