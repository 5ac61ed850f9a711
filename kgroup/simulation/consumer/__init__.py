"""Groups of the consumer protocol (KIP-848), assigned by their coordinator; no I/O."""
