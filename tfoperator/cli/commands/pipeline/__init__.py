"""`tfoperator pipeline ...`: run pipelines, and inspect them.

`running.py` has `run`, `stop` and `clean`. `looking.py` has `runs`, `show`, `logs`, `lineage`, `graph` and `ui`.
`compiling.py` has `compile`. `stepping.py` has `step` and `finish`, which compiled pipelines call.
"""
