"""The command line: parse arguments, call an operation, render its report."""
