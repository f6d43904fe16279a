"""Pipeline runs on the page. The page reads the home of `tfoperator pipeline`, and never writes to it.

`pages.py` detects changes once for all pages, sends the changes to each page, and follows the logs of steps. `views.py`
makes plain data from runs and artifacts.
"""
