"""The elastic policy of a TFJob, which lets the number of workers change, and the state that the status records.

Pure.
"""

from datetime import datetime
from typing import Annotated, Self

import msgspec

from tfoperator.api.fields.field import Field
from tfoperator.api.fields.limits import MAX_REPLICAS

SHRINK_AFTER = 60
"""The default of `shrinkAfterSeconds`, in seconds. Usually a pod that was deleted has a node again within this time."""

GROW_AFTER = 600
"""The default of `growAfterSeconds`, in seconds. This time is long because more workers need a restart of all replicas,
which costs the time since the last checkpoint, and the time to start.
"""

MAX_CHANGES = 1_000_000
"""The highest number of changes that a status records."""


class ElasticPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The limits for the number of workers, and the delays before the number changes."""

    min_replicas: Annotated[
        int | None,
        Field("Smallest number of workers with which the job trains; 1 if unset.", ge=1, le=MAX_REPLICAS),
    ] = None
    max_replicas: Annotated[
        int | None,
        Field(
            "Largest number of workers that the job may have; tfReplicaSpecs.Worker.replicas if unset.",
            ge=1,
            le=MAX_REPLICAS,
        ),
    ] = None
    shrink_after_seconds: Annotated[
        int | None,
        Field(
            f"Seconds for which workers must find no node before the job continues without them; {SHRINK_AFTER} if "
            "unset.",
            ge=0,
        ),
    ] = None
    grow_after_seconds: Annotated[
        int | None,
        Field(
            f"Seconds after a change of the number of workers before the operator tries to add workers; {GROW_AFTER} "
            "if unset.",
            ge=0,
        ),
    ] = None

    @property
    def least(self) -> int:
        """The least number of workers, at least 1."""
        return 1 if self.min_replicas is None else max(self.min_replicas, 1)

    @property
    def shrink_after(self) -> int:
        """The number of seconds for which workers must be unschedulable before the job continues without them."""
        return SHRINK_AFTER if self.shrink_after_seconds is None else max(self.shrink_after_seconds, 0)

    @property
    def grow_after(self) -> int:
        """The seconds after a change of the number of workers until the operator tests whether more workers fit."""
        return GROW_AFTER if self.grow_after_seconds is None else max(self.grow_after_seconds, 0)


MAX_RESIZES = 10
"""The maximum number of changes that a status describes: older changes are dropped."""


class Resize(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One change of the number of workers, and its cost.

    `untrained_seconds` is for how long the job did not train because of the change. It is None until the job trains
    again, changes its number of workers again, is suspended or ends. `untrained_before` is the total number of seconds
    without training from the job's creation to the change.
    """

    time: Annotated[datetime | None, Field("Time of the change.")] = None
    before: Annotated[int, Field("Number of workers before the change.")] = 0
    workers: Annotated[int, Field("Number of workers after the change.")] = 0
    reason: Annotated[str, Field("Reason of the change, in a sentence for people.")] = ""
    untrained_seconds: Annotated[
        int | None,
        Field("Seconds without training from the change until the job trained again or ended.", int64=True),
    ] = None
    untrained_before: Annotated[
        int, Field("Seconds without training from the creation of the job to the change.", int64=True)
    ] = 0

    def closed(self, untrained: int) -> Self:
        """Return the change with its cost: the seconds without training since the change.

        `untrained` is the job's total number of seconds without training until now. The cost of a change is recorded
        once: a later call changes nothing.
        """
        if self.untrained_seconds is not None:
            return self
        return msgspec.structs.replace(self, untrained_seconds=max(untrained - self.untrained_before, 0))

    @property
    def cost(self) -> str:
        """The cost of the change in words: `12 s without training`; `not at work yet` until the cost is known."""
        return "not at work yet" if self.untrained_seconds is None else f"{self.untrained_seconds} s without training"

    def text(self) -> str:
        """Return the change for people: `2 to 1 at 2026-11-30 01:02:03: 12 s without training`."""
        when = "" if self.time is None else f" at {self.time:%Y-%m-%d %H:%M:%S}"
        return f"{self.before} to {self.workers}{when}: {self.cost}"


class ElasticStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The number of workers of an elastic job, the time of its last change, and the reason.

    The state exists from the first start of the job.

    - `workers`: the number of workers that the job has now, or waits for. It is 0 while the job is suspended or waits
      in its queue.
    - `workers_before`: while `workers` is 0, the number of workers that the job had until its queue stopped it. If the
      queue later admits another number, this counts as a change.
    - `wanted`: the number in the spec when `workers` was chosen. If the spec has another number now, a user has scaled
      the job since then.
    - `lacking_since`: the time since which some workers have no room in the cluster; None if all of them have room.
    - `resizes`: the last changes, the newest at the end.
    """

    workers: Annotated[
        int, Field("Number of workers that the job has now, including workers that still wait for a node.")
    ] = 0
    wanted: Annotated[
        int, Field("Number of workers in the spec when the operator chose the value of the field workers.")
    ] = 0
    since: Annotated[datetime | None, Field("Time at which the number of workers last changed.")] = None
    reason: Annotated[str, Field("Reason of the last change, in a sentence for people.")] = ""
    lacking_since: Annotated[
        datetime | None, Field("Time since which workers wait for a node; unset if no worker waits.")
    ] = None
    changes: Annotated[int, Field("Number of changes of the number of workers since the start of the job.")] = 0
    resizes: Annotated[
        tuple[Resize, ...],
        Field(
            f"The last changes of the number of workers, {MAX_RESIZES} at most, with the seconds without training.",
            schema={"maxItems": MAX_RESIZES},
        ),
    ] = ()
    workers_before: Annotated[
        int, Field("Number of workers that the job had before its queue stopped it; unset while the job is admitted.")
    ] = 0

    def with_resize(self, resize: Resize) -> Self:
        """Return the state after one more change of the number of workers.

        An earlier change that has no cost yet ends now: its cost becomes the seconds without training until now.
        """
        ended = tuple(earlier.closed(resize.untrained_before) for earlier in self.resizes)
        return msgspec.structs.replace(self, resizes=(*ended, resize)[-MAX_RESIZES:])

    def closed(self, untrained: int) -> Self:
        """Return the state in which all changes have a cost (seconds without training).

        This function is for a job that trains again or stops. `untrained` is the job's total number of seconds without
        training until now.
        """
        if all(resize.untrained_seconds is not None for resize in self.resizes):
            return self
        return msgspec.structs.replace(self, resizes=tuple(resize.closed(untrained) for resize in self.resizes))

    def last_resizes(self) -> tuple[Resize, ...]:
        """Return the recorded changes, the oldest first; at most MAX_RESIZES, even for a wrong status."""
        return self.resizes[-MAX_RESIZES:]

    def text(self) -> str:
        """Return a text with the number of workers and the reason of the last change; empty if no number is chosen."""
        if self.workers <= 0:
            return ""
        wanted = f"{self.workers} of {self.wanted} wanted" if self.workers < self.wanted else str(self.workers)
        since = "" if self.since is None or not self.reason else f" since {self.since:%Y-%m-%d %H:%M:%S}, because"
        changes = "1 change" if self.changes == 1 else f"{self.changes} changes"
        return f"{wanted}{since} {self.reason}".rstrip() + f" ({changes})"
