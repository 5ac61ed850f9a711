"""The past of groups: tables made of `__consumer_offsets`, and the questions they answer."""
