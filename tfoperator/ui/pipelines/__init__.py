"""Pipeline runs on the page: the home of `tfoperator pipeline`, read and never written.

`board.py` detects changes, once for all pages, `reading.py` reads one run or artifact, `views.py` makes plain
data of it; `step_log.py` follows a step's log, and `pages.py` sends changes to a page.
"""
