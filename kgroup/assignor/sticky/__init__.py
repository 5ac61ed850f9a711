"""The sticky assignors of every version."""
