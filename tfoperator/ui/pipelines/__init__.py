"""Pipeline runs on the page. The page reads the home of `tfoperator pipeline`, and never writes to it.

`pages.py` looks for changes in a single thread for all browser tabs, sends the changes to each of them, and follows the
logs of steps. `views.py` makes JSON from runs and artifacts.
"""
