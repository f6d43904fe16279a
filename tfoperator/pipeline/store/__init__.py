"""Artifacts, executions and runs, and their relations: in ML Metadata's tables, in SQLite or PostgreSQL.

`records.py` has the values, `tables.py` the tables, `database.py` the transactions and what differs in statements,
`sqlite_file.py` and `postgresql.py` what transactions are on each engine; `reading.py` has the reads,
`metadata_store.py` the writes, of which `queries.py` and `properties.py` are the parts, `lineage.py` the ancestors and
descendants of an artifact; `converting.py` opens files of earlier releases.
SQLAlchemy is imported here and nowhere else.
"""
