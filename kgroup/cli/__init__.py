"""The command line: parse, call one operation, render its report."""
