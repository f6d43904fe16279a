"""Pipeline runs on the page: what `tfoperator pipeline` keeps in its home, read and never written.

`board.py` notices what has changed, once for all pages, `reading.py` reads one run or artifact, `views.py` makes plain
data of it, purely; `step_log.py` follows what a step logs, and `streams.py` tells a page of all that as it happens.
"""

from tfoperator.ui.pipelines.pages import PipelinePages

__all__ = ["PipelinePages"]
