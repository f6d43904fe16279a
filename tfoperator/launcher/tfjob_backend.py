"""Runs a launch's container in the replicas of a TFJob: waits for the job, and tells the log of every replica."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from typing import Any

from tfoperator.api.names import DEFAULT_CONTAINER_NAME, JOB_ROLE_MASTER, LABEL_JOB_ROLE, job_selector, replica_of
from tfoperator.api.v1.types import TFJOBS, ConditionType, TFJob, decode_tfjob
from tfoperator.kube.client import Client
from tfoperator.kube.errors import KubeError
from tfoperator.kube.following import Follower
from tfoperator.kube.resources import PODS
from tfoperator.launcher.base import BaseComponentLauncher
from tfoperator.launcher.errors import LaunchCancelled
from tfoperator.launcher.following import Failed, Gone, ObjectFollower, State
from tfoperator.launcher.kube_backend import DEFAULT_GRACE, KubeBackend
from tfoperator.launcher.log_follower import LogFollower
from tfoperator.launcher.mailbox import Mailbox
from tfoperator.launcher.outcome import ContainerEnd
from tfoperator.launcher.pod_backend import RETRY, check_followed
from tfoperator.launcher.pod_view import PodView, container_end, decode_pod_view, has_started

__all__ = ["TFJobBackend"]

logger = logging.getLogger(__name__)

Json = dict[str, Any]

_MAX_LOGS = 64
"""Replicas whose logs are told: each needs a thread and a connection. The others' are in the cluster."""


class TFJobBackend(KubeBackend):
    """See `container_launcher.Backend`."""

    def __init__(self, launcher: BaseComponentLauncher, client: Client, namespace: str, manifest: Json) -> None:
        super().__init__(launcher, client, namespace, TFJOBS, manifest, DEFAULT_GRACE)

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Follow the job to its end."""
        self.mailbox = Mailbox(self.context.clock)
        replicas = _Replicas(self, name, uid)
        failures = 0
        replicas.start()
        try:
            while True:
                with ObjectFollower(self.calls, TFJOBS, name, uid, decode_tfjob, self.mailbox):
                    outcome = self._watch(name, replicas)
                if isinstance(outcome, ContainerEnd):
                    break
                failures += 1
                check_followed(outcome, failures, self.context.api_retry.attempts)
                if self.launcher.cancelled.wait(self.context.clock, RETRY):
                    raise self.cancellation(name)
        except BaseException as error:
            replicas.finish(2.0 if isinstance(error, LaunchCancelled) else 0.0)
            raise
        replicas.finish()
        return outcome

    def _watch(self, name: str, replicas: _Replicas) -> ContainerEnd | KubeError:
        said = ""
        while True:
            if self.launcher.cancelled.is_set():
                raise self.cancellation(name)
            match self.mailbox.take():
                case State(job):
                    assert isinstance(job, TFJob)
                    if (end := _job_end(job, replicas)) is not None:
                        return end
                    current = [c.message for c in job.status.conditions if c.status == "True" and c.message]
                    if current and current[-1] != said:
                        said = current[-1]
                        self.context.tell(f"TFJob {name}: {said}")
                case Gone():
                    where = f"{self.calls.namespace}/{name}"
                    return ContainerEnd(None, f"TFJob {where} was deleted before it had succeeded", lost=True)
                case Failed(error):
                    return error


def _job_end(job: TFJob, replicas: _Replicas) -> ContainerEnd | None:
    for condition in job.status.conditions:
        if condition.status == "True" and condition.type == ConditionType.SUCCEEDED:
            leader = replicas.leader()
            return leader if leader is not None and leader.exit_code == 0 else ContainerEnd(0)
        if condition.status == "True" and condition.type == ConditionType.FAILED:
            leader = replicas.leader()
            said = leader.output if leader is not None else None
            return ContainerEnd(None, condition.message or str(condition.reason), output=said)
    return None


class _Replicas:
    """The pods of a job: their logs, and how the leader's container has ended. `start` and `finish` once each."""

    def __init__(self, backend: TFJobBackend, name: str, uid: str) -> None:
        self._backend = backend
        self._uid = uid
        self._follower = Follower(
            backend.calls.client, PODS, backend.calls.namespace, decode_pod_view, label_selector=job_selector(name)
        )
        self._name = name
        self._lock = threading.Lock()  # guards _logs
        self._logs: dict[str, LogFollower] = {}
        self._thread = threading.Thread(target=self._run, name=f"follow-replicas-{name}", daemon=True)

    def start(self) -> None:
        """Begin to tell logs."""
        self._thread.start()

    def finish(self, seconds: float = 10.0) -> None:
        """Tell what is left, for so many seconds at most, and stop."""
        self._follower.close()
        self._thread.join(10.0)
        clock = self._backend.context.clock
        with self._lock:
            logs, self._logs = list(self._logs.values()), {}
        for log in logs:
            log.end()
        end = clock.monotonic() + seconds
        for log in logs:
            log.finish(max(0.0, end - clock.monotonic()))

    def leader(self) -> ContainerEnd | None:
        """How the container of the job's leader has ended, if it has and is still there."""
        calls = self._backend.calls
        selector = f"{job_selector(self._name)},{LABEL_JOB_ROLE}={JOB_ROLE_MASTER}"
        try:
            page = calls.client.list(PODS, calls.namespace, decode_pod_view, label_selector=selector)
        except KubeError as error:
            logger.warning("the leader of TFJob %s can't be asked for its termination message: %s", self._name, error)
            return None
        ends = [container_end(pod, DEFAULT_CONTAINER_NAME) for pod in page.items if self._is_own(pod)]
        return next((end for end in ends if end is not None), None)

    def _run(self) -> None:
        try:
            with closing(iter(self._follower)) as changes:
                for change in changes:
                    if change.object is not None:
                        self._seen(change.object)
        except KubeError as error:
            logger.warning("the logs of TFJob %s can't be told: %s", self._name, error)

    def _is_own(self, pod: PodView) -> bool:
        owner = pod.metadata.controller
        return owner is not None and owner.uid == self._uid

    def _seen(self, pod: PodView) -> None:
        if not self._is_own(pod) or not has_started(pod, DEFAULT_CONTAINER_NAME):
            return
        with self._lock:
            if pod.metadata.uid in self._logs or len(self._logs) >= _MAX_LOGS:
                return
            log = self._logs[pod.metadata.uid] = self._log(pod)
        log.start()

    def _log(self, pod: PodView) -> LogFollower:
        name, context, work = pod.metadata.name, self._backend.context, self._backend.launcher.work
        replica = replica_of(pod.metadata.labels)
        shown = f"{replica[0].lower()}-{replica[1]}" if replica else name
        of = f"-{pod.metadata.uid}"
        return LogFollower(
            name,
            self._backend.calls.log(name, DEFAULT_CONTAINER_NAME),
            lambda line: context.log(f"[{shown}] {line}"),
            clock=context.clock,
            position=work.log_position(of),
            keep=lambda position: work.keep_log_position(position, of),
        )
