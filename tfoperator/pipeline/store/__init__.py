"""Artifacts, executions and runs, and their relations: in ML Metadata's tables, in SQLite or PostgreSQL.

`records.py` has the values, `tables.py` the tables, `engines.py` what differs between the two, `sqlite_file.py` the
file of the one, `database.py` the transactions; `metadata_store.py` has the reads and writes, of which `reading.py`,
`queries.py` and `properties.py` are the parts, `lineage.py` the ancestors and descendants of an artifact;
`converting.py` opens files of earlier releases.
SQLAlchemy is imported here and nowhere else.
"""
