"""The sticky assignors of all versions of kafka-clients."""
