"""The replica that caused a job's failure (the culprit), and its last lines, as in the job's report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tfoperator.api.replicas.names import replica_name
from tfoperator.api.v1.types import TFJob
from tfoperator.base.controlchars import without_controls
from tfoperator.base.masking import masked_lines
from tfoperator.kube.client import Client
from tfoperator.kube.views.objects import Pod
from tfoperator.logs.archive.layout import ArchivedPod
from tfoperator.report.blame import first_failure, suspects
from tfoperator.sdk.reports.job_report import job_facts

LINES = 20
"""The maximum number of log lines in the error JobFailed. This is enough for a traceback and some lines before it."""
MAX_SUSPECTS = 64
"""The maximum number of replicas whose logs are read to find the first failure. So an error of a job with a thousand
replicas does not cost a thousand requests.
"""

_LINE_LENGTH = 2000


class Culprit(msgspec.Struct, frozen=True):
    """The replica that failed first: its name (`worker-1`), its exit code and its last log lines.

    The newest line is the last.
    """

    replica: str
    exit_code: int
    last_lines: tuple[str, ...] = ()


def find_culprit(job: TFJob, pods: Sequence[Pod], archived: Iterable[ArchivedPod], client: Client) -> Culprit | None:
    """Return the replica that failed first, with the end of its log.

    Return None if no replica has failed. Raises OSError if the archive can't be read. The function reads only the
    logs of replicas that may have failed first.
    """
    archived = list(archived)
    suspected = frozenset(suspects(job_facts(job, pods, archived, None).replicas)[:MAX_SUSPECTS])
    some = [pod for pod in pods if replica_name(pod) in suspected]
    old = [record for record in archived if replica_name(record.as_pod()) in suspected]
    failure = first_failure(job_facts(job, some, old, client).replicas)
    if failure is None or failure.run.exit_code is None:
        return None
    # Mask secrets, remove control characters, and limit the length of lines.
    lines = tuple(without_controls(line[:_LINE_LENGTH]) for line in masked_lines(failure.run.tail)[-LINES:])
    return Culprit(failure.replica.name, failure.run.exit_code, lines)
