"""The libraries that consumers are made of, a module or room each."""
