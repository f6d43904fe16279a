"""The errors of operations on jobs. The message of an error about a single job contains its name and namespace.

If a job, a namespace or the CustomResourceDefinition is missing, an API server answers 404 in all three cases. But the
user needs a different hint for each case. Errors that are not about jobs (no connection, no rights) are not converted:
they are `KubeError`s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.status import JobCondition
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.protocol.errors import AlreadyExistsError, InvalidError, NotFoundError, StatusCause
from tfoperator.sdk.queues import JobQueue
from tfoperator.sdk.reports.culprit import Culprit


class TFJobError(Exception):
    """The base class of the errors of `tfoperator.sdk`."""


class NotInstalled(TFJobError):
    """The cluster does not serve TFJobs, because the CustomResourceDefinition is missing."""

    def __init__(self) -> None:
        super().__init__("the cluster has no TFJobs: the CustomResourceDefinition tfjobs.kubeflow.org is missing")


class NamespaceNotFound(TFJobError):
    """The namespace in which to create a job does not exist."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        super().__init__(f"namespace {namespace} does not exist")


class FunctionSourceError(TFJobError):
    """A training function can't be sent to a cluster.

    For example, its source is missing, or it uses names from outside of the function.
    """


class WorkdirError(TFJobError):
    """A folder (`workdir`) can't be sent together with a job, for example because it is too large."""


class _AboutJob(TFJobError):
    def __init__(self, namespace: str, name: str, what: str, message: str = "") -> None:
        """`what` follows the job's name in the message, for example `has failed`.

        `message` replaces the whole text, including the job's name.
        """
        self.namespace = namespace
        self.name = name
        super().__init__(message or f"TFJob {name} in namespace {namespace} {what}")


class JobNotFound(_AboutJob):
    """There is no such job.

    `archived` names the replicas (`worker-0`) of a deleted job whose logs are in the operator's log archive.
    """

    def __init__(self, namespace: str, name: str, what: str = "", archived: Sequence[str] = ()) -> None:
        self.archived = tuple(archived)
        super().__init__(namespace, name, what, "" if what else f"there is no TFJob {name} in namespace {namespace}")


class JobDeleted(JobNotFound):
    """The job was deleted while the client waited for it."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(namespace, name, "was deleted while the command waited")


class JobAlreadyExists(_AboutJob):
    """There is already a job with this name."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(namespace, name, "", f"namespace {namespace} already has a TFJob {name}")


class JobInvalid(_AboutJob):
    """The API server refuses the job. `causes` name the invalid fields."""

    def __init__(self, namespace: str, name: str, error: InvalidError) -> None:
        self.causes: tuple[StatusCause, ...] = error.causes
        reasons = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
        why = "\n".join(["", *reasons]) if len(reasons) > 1 else " " + (reasons or [error.status.message])[0]
        super().__init__(namespace, name, f"is not valid:{why}")


class NoSuchReplica(_AboutJob):
    """The job has no replicas of the requested type or index."""


class JobEnded(_AboutJob):
    """The job has ended, so the requested change or state is impossible. `job` is the last state of the job."""

    def __init__(self, job: TFJob, what: str) -> None:
        self.job = job
        super().__init__(job.metadata.namespace, job.metadata.name, what)


class JobQueued(_AboutJob):
    """The job can't be suspended or resumed by the user, because Kueue manages it.

    `queue` is the state of the job in its queue. In place of the requested change, the user must set `spec.active` of
    the job's Workload to the value of `active`.
    """

    def __init__(self, job: TFJob, queue: JobQueue, *, active: bool) -> None:
        self.job = job
        self.queue = queue
        self.active = active
        why = "Kueue decides when the job runs, and reverts changes of spec.runPolicy.suspend by others"
        super().__init__(job.metadata.namespace, job.metadata.name, f"is in queue {queue.title}: {why} ({queue})")


class JobElsewhere(_AboutJob):
    """MultiKueue runs the job on another cluster; the requested data is there.

    `cluster` is Kueue's name for the other cluster. The name is empty if Kueue has chosen no cluster yet, or if the
    name can't be read.
    """

    def __init__(self, job: TFJob, cluster: str) -> None:
        self.job = job
        self.cluster = cluster
        where = f"cluster {cluster}" if cluster else "another cluster"
        if final_condition(job) is not None:
            what = (
                f"it ran on {where}, where its pods were deleted after its end; a log archive there may have their logs"
            )
        elif cluster:
            what = f"it runs on {where}, where its pods and their logs are"
        else:
            what = "it has no pods here; MultiKueue will create them on the cluster that it chooses for the job"
        super().__init__(job.metadata.namespace, job.metadata.name, f"is managed by MultiKueue: {what}")


class JobFailed(JobEnded):
    """The job has failed while the client waited for another condition. `condition` is the job's condition Failed.

    `culprit` is the replica that failed first, with its last log lines if they are still available.
    """

    def __init__(self, job: TFJob, condition: JobCondition, culprit: Culprit | None = None) -> None:
        self.condition = condition
        self.culprit = culprit
        why = f" ({condition.reason}): {condition.message}" if condition.message else f": {condition.reason}"
        text = f"has failed{why}"
        if culprit is not None and culprit.last_lines:
            text += f"\nThe last log lines of {culprit.replica}, which ended with exit code {culprit.exit_code}:"
            text += "".join(f"\n  | {line}" for line in culprit.last_lines)
        super().__init__(job, text)


class WaitTimeout(_AboutJob, TimeoutError):
    """The job did not reach the condition within the time limit. `job` is its last known state."""

    def __init__(self, namespace: str, name: str, what: str, job: TFJob | None = None) -> None:
        self.job = job
        super().__init__(namespace, name, what)


@contextmanager
def job_errors(namespace: str, name: str = "") -> Iterator[None]:
    """Convert errors about a TFJob (404, 409, 422) from the `with` block into the errors of this module."""
    try:
        yield
    except NotFoundError as error:
        details = error.status.details
        if details is None or not details.name:
            raise NotInstalled from error
        if details.kind == "namespaces":
            raise NamespaceNotFound(namespace) from error
        raise JobNotFound(namespace, name or details.name) from error
    except AlreadyExistsError as error:
        raise JobAlreadyExists(namespace, name) from error
    except InvalidError as error:
        raise JobInvalid(namespace, name, error) from error
