"""Makes the TFJob for a program that the user names instead of a manifest (`tfoperator run train.py`). No I/O.

On this machine, the process runtime starts the program in the current directory. The runtime replaces `python` in the
command by the Python interpreter that runs tfoperator. In a cluster, the program must be in the image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

from tfoperator.api.replicas.names import ANNOTATION_PARAMETERS, DEFAULT_CONTAINER_NAME
from tfoperator.api.v1.choices import ReplicaType, RestartPolicy, RestartScope
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.views.pod_spec import GPU, verbatim

LOCAL_IMAGE = "local/program"
"""The image of a program on this machine. This image does not exist: the process runtime does not need images."""

_LONGEST_NAME = 40
"""The maximum number of characters of a name that is made from a file name: with the suffix `-worker-9999`, this name
must be a valid name of a service.
"""

LOCAL_GRACE = 10
"""The grace period of a program on this machine, in seconds.

This period is shorter than Kubernetes' 30 s: the user waits at the terminal, and some TensorFlow programs end only by
SIGKILL.
"""

_CHECKPOINT_PATH = "/checkpoint"  # not a path of this machine: $TFOPERATOR_CHECKPOINT_DIR names the real path

_MOST_PARAMETERS, _LONGEST_VALUE = 100, 200


class WorkerNumbers(NamedTuple):
    """The least and the largest number of workers; a job is elastic if they differ."""

    least: int
    most: int


class ProgramJob(msgspec.Struct, frozen=True, kw_only=True):
    """The program to run, and the number of replicas.

    `command` is the part of the command line before the program's arguments (`args`). If `workers` is None, the job
    has 1 worker, or no worker if it has a chief.
    """

    name: str
    command: Sequence[str]
    args: Sequence[str] = ()
    image: str = LOCAL_IMAGE
    workers: int | None = None
    elastic: WorkerNumbers | None = None
    """The bounds for the number of workers of an elastic job. None for a job that is not elastic."""

    ps: int = 0
    data_workers: int = 0
    """The number of workers of the job's data service; 0 for a job without a data service.

    If the job has `checkpoints`, the service's dispatcher keeps a journal in the directory `.data-service` there.
    """

    chief: bool = False
    evaluator: bool = False
    gpus: int = 0
    """The number of GPUs of the chief and of each worker. Parameter servers and evaluators get no GPU."""

    max_restarts: int = 0
    """The number of restarts of replicas after which the next failure ends the job."""

    restart_together: bool = False
    """Whether the failure of one replica restarts all replicas. Programs with collective operations need this."""

    parameters: Mapping[str, Any] | None = None
    """The parameters of the Python function that the program calls, for the records of the run.

    The manifest has only the first parameters, and only the first characters of each value.
    """

    env: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}
    """The limits of each replica, by resource."""

    checkpoints: str = ""
    """The folder of this machine for spec.checkpoint; "" for a job without spec.checkpoint."""

    log_dir: str = ""
    """The folder or URL that the job's TensorBoard shows; "" for a job without a TensorBoard."""

    stall_seconds: int | None = None
    """The number of seconds without progress after which the job is `Stalled`."""

    grace_seconds: int | None = None
    """The grace period of the pods, in seconds."""

    def manifest(self) -> dict[str, Any]:
        """Return the TFJob as a dict, in the form of a manifest."""
        workers = (0 if self.chief else 1) if self.workers is None else self.workers
        counts = {
            ReplicaType.CHIEF: int(self.chief),
            ReplicaType.WORKER: workers,
            ReplicaType.PS: self.ps,
            ReplicaType.EVALUATOR: int(self.evaluator),
        }
        spec: dict[str, Any] = {
            "progress": {},
            "tfReplicaSpecs": {str(kind): self._replicas(kind, count) for kind, count in counts.items() if count},
        }
        if self.evaluator:
            spec["evaluatorInCluster"] = False  # TensorFlow's rule: the evaluator is not part of the cluster spec
        if self.elastic is not None:
            spec["elasticPolicy"] = {"minReplicas": self.elastic.least, "maxReplicas": self.elastic.most}
        policy: dict[str, Any] = {}
        if self.max_restarts:
            policy["backoffLimit"] = self.max_restarts
        if self.restart_together:
            policy["restartScope"] = str(RestartScope.JOB)
        if self.stall_seconds is not None:
            policy["progressDeadlineSeconds"] = self.stall_seconds
        if self.checkpoints:
            spec["checkpoint"] = {"volume": _folder(self.checkpoints), "mountPath": _CHECKPOINT_PATH}
        if self.data_workers:
            spec["dataService"] = self._data_service()
        if self.log_dir:
            spec["tensorBoard"] = _tensorboard(self.log_dir)
        if policy:
            spec = {"runPolicy": policy, **spec}
        metadata: dict[str, Any] = {"name": self.name}
        if self.parameters is not None:
            first = list(self.parameters.items())[:_MOST_PARAMETERS]
            parameters = {str(name)[:_LONGEST_VALUE]: str(value)[:_LONGEST_VALUE] for name, value in first}
            metadata["annotations"] = {ANNOTATION_PARAMETERS: json.dumps(parameters)}
        return {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind, "metadata": metadata, "spec": spec}

    def _data_service(self) -> dict[str, Any]:
        journal = {"workDir": f"{_CHECKPOINT_PATH}/.data-service"} if self.checkpoints else {}
        return {"workers": self.data_workers, **journal}

    def _replicas(self, kind: ReplicaType, count: int) -> dict[str, Any]:
        container: dict[str, Any] = {
            "name": DEFAULT_CONTAINER_NAME,
            "image": self.image,
            "command": [verbatim(word) for word in self.command],
        }
        if self.args:
            container["args"] = [verbatim(word) for word in self.args]
        if self.env:
            container["env"] = [{"name": name, "value": verbatim(value)} for name, value in self.env.items()]
        gpus = {GPU: self.gpus} if self.gpus and kind in (ReplicaType.CHIEF, ReplicaType.WORKER) else {}
        if limits := {**self.limits, **gpus}:
            container["resources"] = {"limits": limits}
        pod: dict[str, Any] = {"containers": [container]}
        if self.grace_seconds is not None:
            pod["terminationGracePeriodSeconds"] = self.grace_seconds
        policy = RestartPolicy.ON_FAILURE if self.max_restarts else RestartPolicy.NEVER
        return {
            "replicas": count,
            "restartPolicy": str(policy),
            "template": {"spec": pod},
        }


def _folder(path: str) -> dict[str, Any]:
    return {"hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def _tensorboard(log_dir: str) -> dict[str, Any]:
    if "://" in log_dir:
        return {"logDir": log_dir}
    mounts = [{"name": "logs", "mountPath": log_dir}]
    return {"logDir": log_dir, "volumes": [{"name": "logs", **_folder(log_dir)}], "volumeMounts": mounts}


def is_program(file: str) -> bool:
    """Return whether a file name is the name of a Python program and not of a manifest."""
    return PurePath(file).suffix in (".py", ".pyc", ".pyw")


def job_name(program: str) -> str:
    """Return a job name for a program's file name, for example `my-train` for `dir/My_Train.py`.

    Return `job` if the file name has no valid characters.
    """
    words = re.sub(r"[^a-z0-9]+", "-", PurePath(program).stem.lower())
    return re.sub(r"^[^a-z]+", "", words)[:_LONGEST_NAME].strip("-") or "job"
