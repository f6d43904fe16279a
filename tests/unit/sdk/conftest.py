from tests.support.served import served, world

__all__ = ["served", "world"]
