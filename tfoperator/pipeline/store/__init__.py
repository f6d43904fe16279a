"""Artifacts, executions and runs, and their relations: in ML Metadata's tables, in SQLite or PostgreSQL.

`records.py` has the values, `tables.py` the tables, `database.py` the transactions and what differs in statements,
`sqlite_file.py` and `postgresql.py` what transactions are on each engine; `runs.py` and `executions.py` have the reads
and writes of `metadata_store.py`, which has lineage, too, `properties.py` the values of properties. SQLAlchemy is
imported here and nowhere else.
"""
