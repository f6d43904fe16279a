"""The metadata store: artifacts, executions, runs, and their relations.

The records are in a SQLite file or a PostgreSQL database, in the tables of ML Metadata (MLMD). Only this package
imports SQLAlchemy. The modules:

- `metadata_store.py` has the class of the store, and the lineage. `runs.py` and `executions.py` have the reads and
  writes of this class.
- `records.py` has the values, and `tables.py` the tables.
- `database.py` has the transactions, and the statements that differ between SQLite and PostgreSQL. `sqlite_file.py` and
  `postgresql.py` have the transactions of SQLite and of PostgreSQL.
- `properties.py` converts the values of properties.
"""
