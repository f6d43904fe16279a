"""The leases of runs and steps: each is taken, renewed and given back by one statement, in the database's own time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

from tfoperator.pipeline.store.database import Database, reads
from tfoperator.pipeline.store.engines import database_seconds, upsert
from tfoperator.pipeline.store.limits import named
from tfoperator.pipeline.store.reading import lease_record
from tfoperator.pipeline.store.records import Lease
from tfoperator.pipeline.store.tables import leases

_RATE_MARGIN = 1.05
"""The maximum ratio of the speeds of two machines' clocks: a holder counts its lease by its own."""


class LeaseTable:
    """Leases by name. Thread-safe. Every method raises StoreError, and is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @reads
    def look(self, db: Connection, name: str) -> Lease:
        """Return a lease as it is now."""
        wanted = select(leases, (leases.c.until - database_seconds()).label("left")).where(leases.c.name == name)
        row = db.execute(wanted).first()
        return Lease() if row is None else lease_record(row)

    def take(self, name: str, mine: Lease, seconds: float, *, dead_kernel: str = "") -> int:
        """Take it, if nobody holds it any more; return its term, 0 if it is another's.

        A holder on `dead_kernel` is known not to be alive.
        """
        until = database_seconds() + seconds * _RATE_MARGIN
        who = {"holder": mine.holder, "host": mine.host[:255], "process": mine.process, "kernel": mine.kernel}
        free = leases.c.holder.in_(["", mine.holder]) | (leases.c.until < database_seconds())
        if dead_kernel:
            free |= leases.c.kernel == dead_kernel

        def work(db: Connection) -> int:
            new = upsert(db, leases).values(name=named(name), term=1, until=until, **who)
            changed: dict[str, Any] = {one: new.excluded[one] for one in ("until", *who)}
            changed["term"] = leases.c.term + 1
            taken = new.on_conflict_do_update(index_elements=["name"], set_=changed, where=free).returning(
                leases.c.term
            )
            return int(db.execute(taken).scalar() or 0)

        return self.database.run(work, write=True)

    def renew(self, name: str, holder: str, seconds: float) -> bool:
        """Renew it; return whether it is still this holder's."""
        return self._change(name, holder, until=database_seconds() + seconds * _RATE_MARGIN)

    def release(self, name: str, holder: str) -> bool:
        """Give it back; return whether it was this holder's."""
        return self._change(name, holder, holder="")

    def _change(self, name: str, who: str, **values: Any) -> bool:
        changed = update(leases).where(leases.c.name == name, leases.c.holder == who).values(**values)
        return self.database.run(lambda db: db.execute(changed).rowcount > 0, write=True)
