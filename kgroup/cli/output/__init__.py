"""Output of commands: streams and formats."""
