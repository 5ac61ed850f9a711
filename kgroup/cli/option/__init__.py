"""Options that several commands have, and what is made of their values."""
