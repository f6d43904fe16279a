"""The web page that shows jobs while they train: a server on loopback, and the page itself, which needs no build step.

`server.py` responds to requests, and `guard.py` authenticates them. In `jobs`, `board.py` caches the cluster's objects,
with a single watch of each kind for all browsers. `history.py` and `usage.py` keep data that an API server does not
keep, such as the curves of metrics. `views.py` and `timeline.py` make JSON from this data, and `streams.py` sends
changes to the page. `pipelines` does the same for pipelines. `static/` contains the files of the page.
"""

from tfoperator.ui.server import PageContent, UiServer

__all__ = ["PageContent", "UiServer"]
