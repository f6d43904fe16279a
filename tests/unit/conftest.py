from tests.support.fixtures import api, clock, every_thread_ends

__all__ = ["api", "clock", "every_thread_ends"]
