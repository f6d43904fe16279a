"""The memory of disruptions in a job's status, which delays replicas that are disrupted again and again."""

from datetime import datetime
from typing import Annotated

import msgspec

from tfoperator.api.fields.field import Field


class DisruptionBackoff(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The last disruptions in a row: each but the first took a replica again soon after it had been made again.

    `count` is their number. The last of them began at `since` and took `replicas`: indexes by type, `"0,2-5"`. The
    memory exists from the first counted disruption until the job ends or is suspended.
    """

    count: Annotated[int, Field("Number of disruptions in a row.")] = 0
    since: Annotated[datetime | None, Field("Time of the last disruption.")] = None
    replicas: Annotated[
        dict[str, str], Field("Indexes of the replicas whose pods the disruption ended, by type: 0,2-5.")
    ] = {}
