"""Check groups for problems: rules, findings, and the observations that rules evaluate."""
