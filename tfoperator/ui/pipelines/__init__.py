"""Pipeline runs on the page: the home of `tfoperator pipeline`, read and never written.

`board.py` detects changes, once for all pages, `pages.py` reads one run or artifact and sends changes to a page,
`views.py` makes plain data of them; `step_log.py` follows a step's log.
"""
