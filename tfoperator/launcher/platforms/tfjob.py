"""Runs a component's container in every replica of a TFJob.

The launcher waits until the job has ended, and forwards the log of every replica. It shares all other code with
`platforms.kubernetes`.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Self

from tfoperator.api.fields.problems import errors
from tfoperator.api.replicas.names import (
    DEFAULT_CONTAINER_NAME,
    JOB_ROLE_MASTER,
    LABEL_JOB_ROLE,
    job_selector,
    replica_name,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.status import all_conditions
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.api.validation.manifest import validate_manifest
from tfoperator.base.clock import epoch_seconds
from tfoperator.kube import ListOptions, Selection
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.watching.following import Follower
from tfoperator.launcher.container.backend import Launch, LogForwarder, object_name
from tfoperator.launcher.core.component import ExecutorContainerSpec, ExecutorSpec, Json, PlatformConfig, merge_values
from tfoperator.launcher.core.errors import PermanentFailure, PlatformConfigError
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls
from tfoperator.launcher.platforms.kubernetes.config import MAIN, KubernetesPodPlatformConfig
from tfoperator.launcher.platforms.kubernetes.launcher import COMPONENT_LABEL, ObjectComponentLauncher
from tfoperator.launcher.platforms.kubernetes.layers import MergedPod
from tfoperator.launcher.platforms.kubernetes.object_backend import ObjectWait
from tfoperator.launcher.platforms.kubernetes.pod_status import (
    PodView,
    container_end,
    decode_pod_view,
    has_started,
    reported_end,
)

logger = logging.getLogger(__name__)

_MAX_LOGS = 64
"""The maximum number of pods whose logs are forwarded. Each log needs a thread and a connection."""


class TFJobWait(ObjectWait[TFJob]):
    """Waits for the end of a TFJob. A separate thread watches the job's pods, and forwards their logs."""

    resource = TFJOBS
    decode = staticmethod(decode_tfjob)

    def __init__(self, launch: Launch, calls: ApiCalls, name: str, uid: str) -> None:
        super().__init__(launch, calls, name, uid)
        self._last_message = ""
        pods = Selection(label_selector=job_selector(name))
        self._follower = Follower(calls.client, PODS, calls.namespace, decode_pod_view, pods)
        self._by_message = not launch.context.tmp_path
        self._lock = threading.Lock()  # guards _leader and _logs
        self._leader: PodView | None = None  # the newest pod with the label for the leader of the job
        self._logs: dict[str, LogForwarder] = {}  # by the pod's uid
        self._thread = threading.Thread(target=self._follow_pods, name=f"follow-replicas-{name}", daemon=True)
        self._thread.start()

    def seen(self, state: TFJob) -> ContainerEnd | None:
        """Handle a new state of the TFJob. Return the outcome, if the job has succeeded or failed.

        Notify the user of new messages in the job's conditions.
        """
        end = final_condition(state)
        if end is not None:
            succeeded = end.type == ConditionType.SUCCEEDED
            leader = self._leader_end(succeeded=succeeded)
            if succeeded:
                return leader if leader.exit_code == 0 else ContainerEnd(0)
            return ContainerEnd(
                None,
                end.message or str(end.reason),
                output=leader.output,
                output_cut=leader.output_cut,
                by_message=self._by_message or leader.by_message,
            )
        true = (condition for condition in all_conditions(state.status) if condition.status == "True")
        messages = [condition.message for condition in true if condition.message]
        if messages and messages[-1] != self._last_message:
            self._last_message = messages[-1]
            self._launch.context.tell(f"TFJob {self._name}: {self._last_message}")
        return None

    def gone(self) -> ContainerEnd:
        """Return the outcome of a deleted TFJob. It is always `lost` (see `ContainerEnd`): the step can be retried."""
        where = f"{self._calls.namespace}/{self._name}"
        return ContainerEnd(None, f"TFJob {where} was deleted before it had succeeded", lost=True)

    def finish(self, seconds: float = 10.0) -> None:
        """Stop the watch of pods, and forward the rest of all logs, for at most `seconds` in total."""
        self._follower.close()
        self._thread.join(10.0)
        clock = self._launch.context.clock
        with self._lock:
            logs, self._logs = list(self._logs.values()), {}
        for log in logs:
            log.end()
        end = clock.monotonic() + seconds
        for log in logs:
            log.finish(max(0.0, end - clock.monotonic()))

    def _leader_end(self, *, succeeded: bool) -> ContainerEnd:
        """Return the end of the container of the leader (the chief, or worker 0). Its output.json is the job's output.

        If the leader's pod was already deleted, its last observed state is used. Raises PermanentFailure if the job
        succeeded and output.json should be the leader's termination message, but the leader's end was not observed.
        """
        calls = self._calls
        options = ListOptions(label_selector=job_selector(self._name))
        page = calls.patiently(
            f"list the pods of TFJob {self._name}",
            lambda: calls.client.list(PODS, calls.namespace, decode_pod_view, options),
        )
        for pod in page.items:
            self._pod_seen(pod)  # the thread may not have received the last states of the pods yet
        with self._lock:
            leader = self._leader
        # The operator has already decided that the job succeeded or failed. Because of cleanPodPolicy, it may have
        # deleted the pod in the second of its end, so `container_end` could count the container as lost. So use
        # `reported_end`, the exit code that the kubelet reports.
        end = (
            ContainerEnd() if leader is None or not _has_ended(leader) else reported_end(leader, DEFAULT_CONTAINER_NAME)
        )
        if not succeeded or end.exit_code == 0:
            return end
        if self._by_message:
            raise PermanentFailure(
                f"TFJob {calls.namespace}/{self._name} has succeeded, but the pod of its chief is gone, and so is "
                "output.json: set spec.runPolicy.cleanPodPolicy to Running or None, or give a tmp_path on a shared "
                "volume"
            )
        return ContainerEnd()

    # The following methods run mostly in the thread that watches the pods.

    def _follow_pods(self) -> None:
        try:
            with closing(iter(self._follower)) as changes:
                for change in changes:
                    if change.object is not None:
                        self._pod_seen(change.object)
        except KubeError as error:
            logger.warning("the logs of TFJob %s can't be forwarded: %s", self._name, error)

    def _pod_seen(self, pod: PodView) -> None:
        meta = pod.metadata
        if not meta.is_controlled_by(self._uid):
            return
        with self._lock:
            if _leads(pod) and _replaces(pod, self._leader):
                self._leader = pod
            if not has_started(pod, DEFAULT_CONTAINER_NAME):
                return
            if meta.uid in self._logs or len(self._logs) >= _MAX_LOGS:
                return
            shown = replica_name(pod)
            connect = self._calls.log(meta.name, DEFAULT_CONTAINER_NAME)
            self._logs[meta.uid] = self._launch.forward_log(
                meta.name, connect, prefix=f"[{shown}] ", key=f"-{meta.uid}"
            )


def _leads(pod: PodView) -> bool:
    return pod.metadata.labels.get(LABEL_JOB_ROLE) == JOB_ROLE_MASTER


def _has_ended(pod: PodView) -> bool:
    return container_end(pod, DEFAULT_CONTAINER_NAME) is not None


def _replaces(pod: PodView, leader: PodView | None) -> bool:
    """Return whether `pod` replaces the known state of the leader's pod.

    A newer pod replaces an older pod: after an eviction, the operator has created the newer pod, and its end decides.
    For the same pod, a list and a watch may deliver states in any order. So a state in which the pod has ended is never
    replaced by a state in which it has not ended.
    """
    if leader is None:
        return True
    if pod.metadata.uid == leader.metadata.uid:
        return _has_ended(pod) or not _has_ended(leader)
    return epoch_seconds(pod.metadata.creation_timestamp) >= epoch_seconds(leader.metadata.creation_timestamp)


class TFJobPlatformConfig(KubernetesPodPlatformConfig):
    """Runs the component's container in every replica of a TFJob, so one step trains on many pods.

    `replicas` is the number of replicas of each type, for example `{"PS": 1, "Worker": 4}`. `spec` is merged into the
    TFJob's spec (RFC 7386, JSON Merge Patch); it may contain, for example, `runPolicy` or the template of a replica
    type. The pod spec is merged over every replica's template. In the TFJob, its container `main` is named
    `tensorflow`.
    """

    def __init__(
        self,
        replicas: Mapping[str, int] | None = None,
        *,
        spec: Mapping[str, Any] | None = None,
        pod_spec: Any = None,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(pod_spec, labels=labels, annotations=annotations, metadata=metadata)
        self.replicas: Mapping[str, int] = dict(replicas or {})
        self.spec: Json = copy.deepcopy(dict(spec or {}))
        for kind, count in self.replicas.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise PlatformConfigError(f"tfjob: replicas: {kind}: must be a number of replicas, but is {count!r}")

    def as_json(self) -> Json:
        """Return the layers, the replicas and the spec."""
        return {**super().as_json(), "replicas": dict(self.replicas), "spec": self.spec}

    def _merged(self, new: Self) -> Self:
        merged = super()._merged(new)
        merged.replicas = {**self.replicas, **new.replicas}
        merged.spec = merge_values(self.spec, new.spec)
        return merged


class TFJobComponentLauncher(ObjectComponentLauncher):
    """Runs container specs with a TFJobPlatformConfig as TFJobs. The operator must run in the cluster."""

    kind = "tfjob"
    waits = TFJobWait

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_spec: PlatformConfig | None = None) -> bool:
        """Return whether the spec is a container spec with a config for a TFJob."""
        return isinstance(executor_spec, ExecutorContainerSpec) and isinstance(platform_spec, TFJobPlatformConfig)

    def _base_pod(self) -> Json:
        base = super()._base_pod()
        del base["spec"]["restartPolicy"]  # in a TFJob, it is a field of the replica type, and not of the pod template
        return base

    def _manifest_of(self, merged: MergedPod) -> Json:
        config = self.platform_config
        assert isinstance(config, TFJobPlatformConfig)
        template = copy.deepcopy({"metadata": merged.pod["metadata"], "spec": merged.pod["spec"]})
        for container in template["spec"]["containers"]:
            if container["name"] == MAIN:
                container["name"] = DEFAULT_CONTAINER_NAME
        replicas = {
            kind: {"replicas": count, "template": copy.deepcopy(template)}
            for kind, count in (config.replicas or {"Worker": 1}).items()
        }
        job = {
            "apiVersion": f"{TFJOBS.group}/{TFJOBS.version}",
            "kind": TFJOBS.kind,
            "metadata": {"labels": {COMPONENT_LABEL: template["metadata"]["labels"][COMPONENT_LABEL]}},
            "spec": merge_values({"tfReplicaSpecs": replicas}, config.spec),
        }
        named = {**job, "metadata": {"name": object_name(self.component.name, "0" * 8, 1)}}
        if problems := errors(validate_manifest(named)):
            lines = [f"component {self.component.name}: its TFJob is not valid:", *map(str, problems)]
            raise PlatformConfigError("\n".join(lines))
        return job
