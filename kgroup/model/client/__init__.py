"""Of which library a member of a classic group is, as far as its bytes and its name tell."""
