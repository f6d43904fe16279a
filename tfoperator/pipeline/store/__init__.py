"""Artifacts, executions and runs, and their relations: in ML Metadata's tables, in SQLite or PostgreSQL.

`records.py` has the values, `tables.py` the tables, `database.py` the transactions and the differences between the
engines' statements. `sqlite_file.py` and `postgresql.py` have the transactions of each engine. `runs.py` and
`executions.py` have the reads and writes of `metadata_store.py`, which also has lineage. `properties.py` has the values
of properties. SQLAlchemy is imported here and nowhere else.
"""
