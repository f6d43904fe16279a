from tests.support.fixtures import every_thread_ends

__all__ = ["every_thread_ends"]
