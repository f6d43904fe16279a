"""JSON that is nested deeper than any Python follows it.

Up to 3.12 Python allows as many levels as its own functions may be nested, 3.13 some 10,000, and later versions as many
as fit into the stack.
"""

TOO_MANY_LEVELS = 1_000_000


def nested(levels: int = TOO_MANY_LEVELS) -> bytes:
    """Lists in lists."""
    return b"[" * levels + b"]" * levels
