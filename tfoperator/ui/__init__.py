"""The web page of `tfoperator ui`, which shows jobs and pipeline runs, and its server on loopback (127.0.0.1).

`server.py` responds to requests, and `guard.py` authenticates them. In `jobs`, `board.py` caches the cluster's objects,
with a single watch of each kind for all browsers. `history.py` and `usage.py` keep data that the API server does not
keep, such as the curves of metrics. `views.py` and `timeline.py` make JSON from this data, and `streams.py` sends
changes to the page. The package `pipelines` contains the same parts for pipeline runs. `static/` contains the files of
the page. These files need no build step.
"""

from tfoperator.ui.server import PageContent, UiServer

__all__ = ["PageContent", "UiServer"]
