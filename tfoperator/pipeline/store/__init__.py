"""The metadata store: artifacts, executions, runs, and their relations.

They are in a SQLite file or a PostgreSQL database, in the tables of ML Metadata (MLMD). `records.py` has the values and
`tables.py` has the tables. `database.py` has the transactions, and the statements that differ between SQLite and
PostgreSQL. `sqlite_file.py` and `postgresql.py` have the transactions for each of them. `runs.py` and `executions.py`
have the reads and writes of the class in `metadata_store.py`, which also has the lineage. `properties.py` converts the
values of properties. Only this package imports SQLAlchemy.
"""
