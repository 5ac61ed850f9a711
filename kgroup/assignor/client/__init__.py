"""The assignors of other client libraries than Java's, a module or room for each."""
