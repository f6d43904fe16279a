"""Pipeline runs on the page: the home of `tfoperator pipeline`, read and never written.

`pages.py` detects changes, once for all pages, and sends them to each; `views.py` makes plain data of runs and
artifacts; `step_log.py` follows a step's log.
"""
