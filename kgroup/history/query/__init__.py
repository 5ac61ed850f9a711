"""Questions about the past, one module each."""
