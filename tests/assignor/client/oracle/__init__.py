"""Programs that ask the libraries themselves; a module for each, with `ask`."""
