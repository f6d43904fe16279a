from tests.support.served import every_thread_ends, served, world

__all__ = ["every_thread_ends", "served", "world"]
