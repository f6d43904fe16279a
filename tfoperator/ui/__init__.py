"""A page that shows jobs as they train: a server on loopback, and the page itself, which needs no build step.

`server.py` answers, `guard.py` says whom; `board.py` keeps what is known of the cluster (one watch per kind for all
pages), `history.py` and `usage.py` what an API server forgets; `views.py` and `timeline.py` turn that into plain data,
`streams.py` into what a page hears as it happens. `static/` is the page.
"""

from tfoperator.ui.server import UiServer

__all__ = ["UiServer"]
