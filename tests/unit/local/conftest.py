from tests.support.threads import every_thread_ends

__all__ = ["every_thread_ends"]
