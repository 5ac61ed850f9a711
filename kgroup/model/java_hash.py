"""Java's hash of a string, on which Kafka builds the choice of a group's partition."""

__all__ = ["string_hash"]


def string_hash(text: str) -> int:
    """Return ``String.hashCode``: ``h = 31 * h + unit`` over UTF-16 units, as a Java int."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
