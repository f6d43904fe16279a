"""Jobs on the page: watches of jobs, pods and events, the jobs' history, and streams of changes.

`board` contains the caches of objects. `views` and `timeline` make JSON from the objects. `streams` sends changes to
the page.
"""
