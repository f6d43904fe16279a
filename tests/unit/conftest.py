from tests.support.fixtures import api, clock, every_thread_ends, give_away

__all__ = ["api", "clock", "every_thread_ends", "give_away"]
