"""The disruptions in a job's status: from them the operator computes the delay before the next restart of a replica.

A disruption is an end of a pod that a user, the scheduler or a node caused. It is not a failure of the program.
"""

from datetime import datetime
from typing import Annotated

import msgspec

from tfoperator.api.fields.field import Field


class DisruptionBackoff(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The last disruptions in a row.

    Each disruption after the first ended a replica's pod soon after the operator had recreated the pod. `count` is the
    number of disruptions in the row, including the first. The last disruption began at `since`, and ended the pods of
    `replicas` (indexes by replica type: `"0,2-5"`). The record exists from the first disruption until the job ends or
    is suspended.
    """

    count: Annotated[int, Field("Number of disruptions in a row.")] = 0
    since: Annotated[datetime | None, Field("Time of the last disruption.")] = None
    replicas: Annotated[
        dict[str, str], Field("Indexes of the replicas whose pods the disruption ended, by type, such as 0,2-5.")
    ] = {}
