from tests.support.fixtures import clock, every_thread_ends

__all__ = ["clock", "every_thread_ends"]
