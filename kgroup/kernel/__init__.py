"""Compiled functions: log walkers, the interpreter of schema programs, their memory and cache."""
