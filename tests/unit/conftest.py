from tests.support.fixtures import api, clock

__all__ = ["api", "clock"]
