"""Where a command's output goes, and in which form."""
