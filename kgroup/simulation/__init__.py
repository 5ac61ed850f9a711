"""Consumer groups as state machines on a virtual clock: coordinators, clients, brokers; no I/O."""
