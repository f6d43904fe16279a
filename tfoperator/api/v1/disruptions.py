"""The memory of disruptions in a job's status, which delays replicas that are taken again and again."""

from __future__ import annotations

from datetime import datetime

import msgspec


class DisruptionBackoff(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The last disruptions in a row: each but the first took a replica again soon after it had been made again.

    `count` is their number. The last of them began at `since` and took `replicas`: indexes by type, `"0,2-5"`. It is
    there once a disruption was counted, until the job ends or is suspended.
    """

    count: int = 0
    since: datetime | None = None
    replicas: dict[str, str] = {}
