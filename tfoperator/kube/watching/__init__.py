"""Lists, and watches that last: the pages of a list, the reflector below each cache, and followers that wait."""
