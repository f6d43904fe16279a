"""`tfoperator pipeline ...`: run pipelines, and inspect them.

`running.py` has `run`, `stop` and `clean`; `looking.py` `runs`, `show`, `logs`, `lineage`, `graph` and `ui`;
`compiling.py` `compile`, and `stepping.py` `step` and `finish`, which compiled pipelines run.
"""
