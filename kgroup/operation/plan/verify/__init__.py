"""How far a step of a plan is: the group as it is, beside what the step was to make of it."""
