"""Lists and watches: the pages of a list, the reflector that fills each cache, and followers that wait for changes."""
