"""Pipeline runs on the page. The page's server reads the home of `tfoperator pipeline`, and never writes to the home.

The home is the directory or database that contains the records of runs. `pages.py` looks for changes in a single thread
for all browser tabs, sends the changes to each tab, and follows the logs of steps. `views.py` makes JSON from runs and
artifacts.
"""
