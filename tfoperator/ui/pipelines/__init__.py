"""Pipeline runs on the page: the home of `tfoperator pipeline`, read and never written.

`pages.py` detects changes, once for all pages, sends them to each, and follows logs of steps; `views.py` makes plain
data of runs and artifacts.
"""
