"""Jobs on the page: watches of jobs, pods and events, the jobs' history, and streams of changes.

`board` has the caches. `views` and `timeline` make plain data from them. `streams` sends changes to the page.
"""
