"""Groups of the consumer protocol (KIP-848), which their coordinator assigns; pure."""
