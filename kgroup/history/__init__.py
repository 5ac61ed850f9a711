"""History of groups: tables built from `__consumer_offsets`, and the questions that they answer."""
