"""Artifacts, executions, runs, and their relations. They are in the tables of ML Metadata, in SQLite or PostgreSQL.

`records.py` has the values and `tables.py` has the tables. `database.py` has the transactions, and the statements that
differ between the engines. `sqlite_file.py` and `postgresql.py` have the transactions for one engine each. `runs.py`
and `executions.py` have the reads and writes for `metadata_store.py`. That module also has the lineage. `properties.py`
converts the values of properties. Only this package imports SQLAlchemy.
"""
