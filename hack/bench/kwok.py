"""kwok as the kubelet of the benchmark: a pod that is pending runs, one with a label finishes, a deleted one goes.

Pods get no addresses: the benchmark never reads an address, and all contestants would pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from hack import gobuild
from hack.bench.loads import FINISH_LABEL, FINISH_SECONDS
from hack.controlplane import ControlPlane
from hack.processes import spawn

Json = dict[str, Any]

_OPTIONS = {
    "manageAllNodes": True,
    "nodeLeaseDurationSeconds": 0,
    "podPlayStageParallelism": 16,
    "nodePlayStageParallelism": 1,
    "podsOnNodeSyncParallelism": 1,
}
_DELETED = ".metadata.deletionTimestamp"
_NOW = "{{ $now | Quote }}"
_CONTAINERS = """
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  restartCount: 0
"""


def _status(phase: str, container: str, more: str = "") -> str:
    """A template of a pod's status; `container` is what each of its containers has besides name and image."""
    indented = "".join(f"  {line}\n" for line in container.splitlines())
    return f"{{{{ $now := Now }}}}\nphase: {phase}\n{more}{_CONTAINERS.lstrip()}{indented}{{{{ end }}}}\n"


_RUNNING = _status(
    "Running",
    f"ready: true\nstarted: true\nstate: {{running: {{startedAt: {_NOW}}}}}",
    f"startTime: {_NOW}\nconditions:\n"
    + "".join(
        f'- {{type: {condition}, status: "True", lastTransitionTime: {_NOW}}}\n'
        for condition in ("Initialized", "Ready", "ContainersReady")
    ),
)
_SUCCEEDED = _status(
    "Succeeded",
    "ready: false\nstarted: false\n"
    f"state: {{terminated: {{exitCode: 0, reason: Completed, startedAt: {_NOW}, finishedAt: {_NOW}}}}}",
)


def _stage(name: str, *conditions: Json, then: Json, kind: str = "Pod", **spec: Json) -> Json:
    """A transition of the objects of a kind to which all of the conditions apply."""
    selector = {"matchExpressions": list(conditions)}
    of_kind = {"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": selector, "next": then}
    meta = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}}
    return {**meta, "spec": {**of_kind, **spec}}


def _if(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


_CONFIGURATION = [
    {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": _OPTIONS},
    _stage(
        "pod-run",
        _if(_DELETED, "DoesNotExist"),
        _if(".status.phase", "In", "Pending"),
        then={"statusTemplate": _RUNNING},
    ),
    _stage(
        "pod-finish",
        _if(_DELETED, "DoesNotExist"),
        _if(f'.metadata.labels["{FINISH_LABEL}"]', "Exists"),
        _if(".status.phase", "In", "Running"),
        then={"statusTemplate": _SUCCEEDED},
        delay={"durationMilliseconds": FINISH_SECONDS * 1000},
    ),
    _stage("pod-delete", _if(_DELETED, "Exists"), then={"finalizers": {"empty": True}, "delete": True}),
    # Nodes are never deleted here, but without any stage of nodes kwok would not see the nodes, nor their pods.
    _stage("node-delete", _if(_DELETED, "Exists"), then={"delete": True}, kind="Node"),
]


@contextmanager
def kwok(plane: ControlPlane) -> Iterator[None]:
    """A running kwok for all nodes and pods of a control plane. Raises BuildError."""
    config = plane.folder / "kwok.yaml"
    config.write_text(yaml.safe_dump_all(_CONFIGURATION))
    command = [str(gobuild.find("kwok")), f"--kubeconfig={plane.kubeconfig}", f"--config={config}"]
    process = spawn(command, plane.folder / "kwok.log", start_new_session=True)
    try:
        yield
    finally:
        process.kill()  # it keeps no state
        process.wait(10)
