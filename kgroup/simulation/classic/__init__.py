"""The coordinator side of groups of the classic protocol."""
