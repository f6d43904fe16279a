"""Jobs on the page: watches of jobs, pods and events, their history, and streams of changes.

`board` has the caches, `views` and `timeline` make plain data of them, `streams` sends changes.
"""
