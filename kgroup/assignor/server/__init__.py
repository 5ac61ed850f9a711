"""The assignors of the group coordinator (KIP-848, KIP-932)."""
