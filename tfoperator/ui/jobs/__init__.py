"""What does the page show of jobs? Watches of jobs, pods and events, what is kept of them, and streams of what changes.

`board` has what is known, `views` and `timeline` make plain data of it, `streams` sends what has changed.
"""
