"""The web page that shows jobs while they train: a server on loopback, and the page itself, which needs no build step.

`server.py` answers requests, and `guard.py` authenticates them. `board.py` caches the cluster's objects, with one watch
of each kind for all pages. `history.py` and `usage.py` keep data that an API server forgets. `views.py` and
`timeline.py` make plain data from all this, and `streams.py` sends changes to the page. `static/` contains the files of
the page.
"""

from tfoperator.ui.server import PageContent, UiServer

__all__ = ["PageContent", "UiServer"]
