"""What is wrong with groups: rules, what they find, and the looks at groups that they judge."""
