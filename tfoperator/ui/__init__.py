"""A page that shows jobs during training: a server on loopback, and the page itself, which needs no build step.

`server.py` answers requests, `guard.py` authenticates them; `board.py` caches the cluster (one watch per kind for all
pages), `history.py` and `usage.py` what an API server forgets; `views.py` and `timeline.py` turn that into plain data,
`streams.py` sends changes to the page. `static/` is the page.
"""

from tfoperator.ui.server import PageContent, UiServer

__all__ = ["PageContent", "UiServer"]
