"""Artifacts, executions and runs, and their relations: in ML Metadata's tables, in SQLite or PostgreSQL.

`records.py` has the values, `tables.py` the tables, `database.py` the transactions, `sqlite_file.py` and
`postgresql.py` what they are on each engine, `engines.py` the statements that differ; `reading.py` has the reads,
`metadata_store.py` the writes, of which `queries.py` and `properties.py` are the parts, `lineage.py` the ancestors and
descendants of an artifact; `converting.py` opens files of earlier releases.
SQLAlchemy is imported here and nowhere else.
"""
