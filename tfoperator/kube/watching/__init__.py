"""Lists and watches that go on: pages of a list, the reflector below each cache, and followers that wait."""
