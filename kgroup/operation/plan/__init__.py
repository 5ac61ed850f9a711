"""Plans of migrations: what must hold, what to do, what is to be seen, and what it costs."""
