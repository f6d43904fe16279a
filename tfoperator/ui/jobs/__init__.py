"""Jobs on the page: watches of jobs, pods and events, the jobs' history, and streams of changes.

`board` has the caches of objects. `views` and `timeline` make JSON from them. `streams` sends changes to the page.
"""
