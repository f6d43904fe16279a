"""Compares the CRD in the API server with the fields of this release, at the start and then each hour.

After an upgrade, the Deployment may be new while the CRD is still old, for example after `kubectl apply --server-side`
without `--force-conflicts`. Then the API server prunes (removes) the fields of jobs and of their status that are new in
this release. The operator shows this in its log, in a metric, and in events on the jobs that use such fields.

The check reads the CRD's fields from the API server's OpenAPI document. For this, the operator needs no rights on CRDs,
and it writes nothing. So the check also works if the operator is installed for a single namespace.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

import tfoperator
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import Clock, Repetition
from tfoperator.kube.protocol.errors import UNDECODABLE, KubeError
from tfoperator.kube.protocol.verbs import ApiClient, ListWatch
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.kube.watching.listing import list_pages
from tfoperator.operator.metrics.operator_metrics import OperatorMetrics

if TYPE_CHECKING:
    from tfoperator.api.schema.served import FieldTree

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 3600.0
_AGAIN_SECONDS = 60.0
"""Seconds until the next check while fields are missing. So an administrator who applies the new CRD sees the result
within a minute.
"""

_CONFIRM_SECONDS = 5.0
"""Seconds for which fields must be missing before the operator reports this. After an upgrade, the operator may start
before the API server serves the new CRD.
"""

_JOBS_SECONDS = 600.0
"""Seconds between two lists of all jobs while fields are missing."""

_NAMED = 5
"""The maximum number of fields that a message names."""

_UPDATE = "tfoperator crd | kubectl apply --server-side --force-conflicts -f -"
"""The command that updates the CRD."""

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Report = Callable[[ObjectMeta, JobReason, str], None]


class _Manager(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    fields: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="fieldsV1")


class _Metadata(ObjectMeta, frozen=True, rename="camel"):
    managed_fields: tuple[_Manager, ...] = ()


class _Written(msgspec.Struct, frozen=True):
    """The metadata of a job that shows which fields clients wrote, including the fields that the API server pruned.

    This metadata is `managedFields` and the annotation `kubectl.kubernetes.io/last-applied-configuration`.
    """

    metadata: _Metadata


def missing_fields_of(fetch: Callable[[str], bytes]) -> tuple[str, ...]:
    """Return the paths of this release's fields that the API server does not serve.

    `fetch` returns the body of a GET of a path. Raises KubeError, and raises ValueError if the answer can't be decoded.
    """
    from tfoperator.api.schema.served import missing_fields

    return missing_fields(*_trees(fetch))


def _trees(fetch: Callable[[str], bytes]) -> tuple[FieldTree, FieldTree]:
    """Return the fields of this release, and the fields that the API server serves.

    Raises KubeError, and raises ValueError if the answer can't be decoded.
    """
    # Imported late: the module is needed once an hour.
    from tfoperator.api.schema.served import OPENAPI_PATH, needed_fields, served_fields

    try:
        return needed_fields(), served_fields(fetch(OPENAPI_PATH))
    except UNDECODABLE as error:
        raise ValueError(f"{OPENAPI_PATH} is not an OpenAPI document: {error}") from error


class CrdCheck(Repetition):
    """Checks the CRD in its own thread. `start` and `stop` work as in `Repetition`."""

    def __init__(
        self,
        client: ApiClient,
        fetch: Callable[[str], bytes],
        *,
        namespaces: Sequence[str],
        report: Report,
        is_leader: Callable[[], bool],
        metrics: OperatorMetrics,
        clock: Clock,
    ) -> None:
        """Initialize. `fetch` returns the body of a GET of a path, and `report` records an event on a job.

        Only the leader reports events.
        """
        super().__init__(self._check, seconds=_CHECK_SECONDS, clock=clock, name="crd-check")
        self._time = clock
        self._client = client
        self._fetch = fetch
        self._namespaces = namespaces
        self._report = report
        self._is_leader = is_leader
        self._metrics = metrics
        self._said = ""
        self._reported: frozenset[str] = frozenset()  # UIDs of jobs with an event
        self._listed_at = float("-inf")
        self._missing_since = float("inf")

    def _check(self) -> float | None:
        from tfoperator.api.schema.served import missing_fields

        now = self._time.monotonic()
        try:
            needed, served = _trees(self._fetch)
            missing = missing_fields(needed, served)
            self._missing_since = min(self._missing_since, now) if missing else float("inf")
            if missing and (left := self._missing_since + _CONFIRM_SECONDS - now) > 0:
                return left
            if missing and self._is_leader() and now - self._listed_at >= _JOBS_SECONDS:
                self._look_at_jobs(needed, served)
                self._listed_at = now
        except (KubeError, ValueError) as error:
            self._say(f"it is unknown whether the CRD of TFJobs has all fields of this release: {error}")
            return _AGAIN_SECONDS
        self._metrics.crd_lacks(len(missing))
        if missing:
            self._say(outdated(missing))
            return _AGAIN_SECONDS
        if self._said:
            self._said = ""
            logger.info("the CRD of TFJobs has all fields of this release")
        return None

    def _say(self, message: str) -> None:
        if message != self._said:
            self._said = message
            logger.warning("%s", message)

    def _look_at_jobs(self, needed: FieldTree, served: FieldTree) -> None:
        """Report an event on each job with fields that the API server prunes. Raises KubeError.

        A job on which the previous check reported the event gets no further event.
        """
        decode = msgspec.json.Decoder(_Written).decode
        found = set()
        for namespace in self._namespaces:
            for page in list_pages(ListWatch(self._client, TFJOBS, namespace, decode)):
                for job in page.items:
                    paths = _pruned(job, needed, served)
                    if not paths:
                        continue
                    found.add(job.metadata.uid)
                    if job.metadata.uid not in self._reported:
                        self._report(job.metadata, JobReason.FIELDS_PRUNED, _pruned_text(paths))
        self._reported = frozenset(found)


def _pruned(job: _Written, needed: FieldTree, served: FieldTree) -> tuple[str, ...]:
    """Return the sorted paths of the fields in a job's spec that clients wrote, and that the API server prunes."""
    from tfoperator.api.schema.served import pruned_fields, value_of_fields

    applied = _decoded(job.metadata.annotations.get(_APPLIED, "").encode())
    written = [applied] if isinstance(applied, dict) and applied.get("apiVersion") == TFJOBS.api_version else []
    for manager in job.metadata.managed_fields:
        if manager.api_version == TFJOBS.api_version:
            written.append(value_of_fields(_decoded(manager.fields)))
    specs = [value["spec"] for value in written if isinstance(value, dict) and "spec" in value]
    found = (pruned_fields(spec, needed.field("spec"), served.field("spec"), "spec") for spec in specs)
    return tuple(sorted({path for paths in found for path in paths}))


def _decoded(data: msgspec.Raw | bytes) -> object:
    """Return JSON as plain data. Return None if the bytes are not JSON: users can write any text into an annotation."""
    try:
        return msgspec.json.decode(data)
    except UNDECODABLE:
        return None


def _pruned_text(paths: Sequence[str]) -> str:
    return (
        f"The CRD of TFJobs is older than the operator: the API server removes {_listed(paths)} from this job. "
        f"Apply the CRD of tfoperator {tfoperator.__version__} ({_UPDATE}), and then apply the job again"
    )


def outdated(missing: Sequence[str]) -> str:
    """Return a message that the CRD lacks these fields, with the command that updates the CRD."""
    return (
        f"the CRD of TFJobs is older than tfoperator {tfoperator.__version__}: "
        f"the API server removes {_listed(missing)} from jobs. To update the CRD: {_UPDATE}"
    )


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more} more fields" if more > 0 else "")
