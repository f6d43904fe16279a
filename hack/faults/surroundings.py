"""Plays what stands around TensorBoards and gangs: the deployment controller, the gang scheduler, users, and strangers.

A stranger is an object that has the name of a job's TensorBoard or PodGroup, and belongs to nobody. Part of the player:
it keeps the same account of what it did to whom.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hack.faults.companions import Companions
from hack.faults.journal import Journal, Keeper
from hack.faults.pod_groups import pod_groups_of
from hack.faults.pod_reports import phase_of
from hack.faults.steps import Act, Step
from tfoperator.kube.client import Client
from tfoperator.kube.errors import KubeError
from tfoperator.kube.resources import DEPLOYMENTS, NAMESPACES, PODS, SERVICES, Resource

__all__ = ["BOARD_LABEL", "Surroundings", "followed"]

Json = dict[str, Any]

BOARD_LABEL = "training.kubeflow.org/tensorboard"
"""On all that a TensorBoard consists of, and on nothing else."""

_HELD, _PUSHED_OUT = 0.3, 0.2
"""How often what a user deletes is held by a finalizer, and a gang that Volcano looks at has to wait again."""

_FINALIZER = "example.invalid/held"
_ENDED = ("Succeeded", "Failed")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def followed(companions: Companions) -> dict[str, Resource]:
    """The kinds that a journal has to follow for these companions."""
    found = {"Deployment": DEPLOYMENTS} if companions.boards else {}
    return found | ({"PodGroup": pod_groups_of(companions.gang)} if companions.gang else {})


class Surroundings:
    """Acts in one namespace. For one thread."""

    def __init__(
        self, client: Client, namespace: str, companions: Companions, keeper: Keeper, account: Journal
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._keeper = keeper
        self._account = account
        self._resources = {"Service": SERVICES, "Pod": PODS, **followed(companions)}

    def act(self, step: Step, job: str) -> str:
        """Do what the step says; returns what it came to. Raises KubeError."""
        match step.act:
            case Act.SERVE_BOARD:
                return ", ".join(self._serve(one) for one in self._boards(job)) or "no TensorBoard"
            case Act.LOSE_BOARD_POD:
                return self._lose(job, str(step.value))
            case Act.DELETE_BOARD:
                return self._take(str(step.value), f"{job}-tensorboard", held=step.pick < _HELD)
            case Act.ADMIT_GANG:
                phase = "Pending" if step.pick > 1 - _PUSHED_OUT else "Inqueue"
                return ", ".join(self._admit(one, phase) for one in self._groups(job)) or "no PodGroup"
            case Act.DELETE_POD_GROUP:
                return self._take("PodGroup", job, held=step.pick < _HELD)
            case Act.ORPHAN:
                return self._orphan(job, str(step.value))
            case Act.OCCUPY:
                return self._occupy(job, str(step.value), at_once=step.pick < 0.5, disguised=step.pick * 10 % 1 < 0.5)
            case _:
                self._let_go()
                return ", ".join(self._remove(kind, one) for kind, one in self._strangers(job)) or "no stranger"

    def tend(self) -> None:
        """What happens by itself in a calm: strangers make room, gangs are admitted, TensorBoards run."""
        for kind, stranger in self._strangers(""):
            self._try(lambda kind=kind, one=stranger: self._remove(kind, one))
        self._try(self._let_go)
        for group in self._groups(""):
            self._try(lambda one=group: self._admit(one, "Inqueue"))
        for deployment in self._boards(""):
            self._try(lambda one=deployment: self._serve(one))

    @staticmethod
    def _try(action: Any) -> None:
        try:
            action()
        except KubeError:
            pass  # this is done again and again

    # TensorBoards.

    def _boards(self, job: str) -> list[Json]:
        """The Deployments of a job's TensorBoard, or of all."""
        return [
            one
            for one in self._keeper.current("Deployment")
            if not one["metadata"].get("deletionTimestamp")
            and one["metadata"]["uid"] not in self._account.strangers
            and (found := (one["metadata"].get("labels") or {}).get(BOARD_LABEL)) is not None
            and job in ("", found)
        ]

    def _pods(self, deployment: Json) -> list[Json]:
        uid = deployment["metadata"]["uid"]
        return [
            pod
            for pod in self._keeper.current("Pod")
            if uid in {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}
        ]

    def _serve(self, deployment: Json) -> str:
        """As the deployment controller and a kubelet do it: one pod, of which the Deployment tells."""
        meta, pods = deployment["metadata"], self._pods(deployment)
        for pod in pods:
            if phase_of(pod) in _ENDED:
                self._remove("Pod", pod)
        living = [pod for pod in pods if phase_of(pod) not in _ENDED]
        if not living:
            living = [self._make_pod(deployment)]
        for pod in living:
            if phase_of(pod) == "Pending":
                change = {"status": {"phase": "Running"}}
                name = pod["metadata"]["name"]
                answer = self._client.patch(PODS, self._namespace, name, change, _decode, subresource="status")
                self._keeper.add(answer, "Pod")
        self._tell(deployment, 1)
        return f"{meta['name']} runs"

    def _make_pod(self, deployment: Json) -> Json:
        meta, template = deployment["metadata"], deployment["spec"]["template"]
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"], "uid": meta["uid"]}
        metadata = {
            "name": f"{meta['name']}-0",  # not of any name: it may be there already, and not be seen yet
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        }
        body = {"metadata": metadata, "spec": template["spec"]}
        return self._client.create(PODS, self._namespace, body, _decode)

    def _tell(self, deployment: Json, available: int) -> None:
        if ((deployment.get("status") or {}).get("availableReplicas") or 0) == available:
            return
        name, counts = deployment["metadata"]["name"], ("replicas", "readyReplicas", "availableReplicas")
        change = {"metadata": {"uid": deployment["metadata"]["uid"]}, "status": dict.fromkeys(counts, available)}
        answer = self._client.patch(DEPLOYMENTS, self._namespace, name, change, _decode, subresource="status")
        self._keeper.add(answer, "Deployment")

    def _lose(self, job: str, how: str) -> str:
        found = [(one, pod) for one in self._boards(job) for pod in self._pods(one) if phase_of(pod) not in _ENDED]
        if not found:
            return "no such pod"
        [(deployment, pod), *_] = found
        if how == "kill":
            self._remove("Pod", pod)
        else:
            status = {"phase": "Failed", "reason": "Evicted" if how == "evict" else None}
            name = pod["metadata"]["name"]
            self._client.patch(PODS, self._namespace, name, {"status": status}, _decode, subresource="status")
        self._tell(deployment, 0)
        return f"{pod['metadata']['name']} {how}"

    # PodGroups.

    def _groups(self, job: str) -> list[Json]:
        """The PodGroup of a job, or of all."""
        return [
            one
            for one in self._keeper.current("PodGroup")
            if job in ("", one["metadata"]["name"]) and one["metadata"]["uid"] not in self._account.strangers
        ]

    def _admit(self, group: Json, phase: str) -> str:
        """As Volcano says that there is room, or no more. It makes no difference to a gang of the other kind."""
        name = group["metadata"]["name"]
        if (group.get("status") or {}).get("phase") != phase:
            change = {"metadata": {"uid": group["metadata"]["uid"]}, "status": {"phase": phase}}
            resource = self._resources["PodGroup"]
            answer = self._client.patch(resource, self._namespace, name, change, _decode, subresource="status")
            self._keeper.add(answer, "PodGroup")
        return f"{name} {phase}"

    # Users and strangers.

    def _take(self, kind: str, name: str, *, held: bool = False) -> str:
        """Delete it; if it is `held`, somebody's finalizer keeps it for a while."""
        found = self._ours(kind, name)
        if held:
            for one in found:
                self._set_finalizers(kind, one, [_FINALIZER])
        return ", ".join(self._remove(kind, one) for one in found) or f"no {kind} {name}"

    def _let_go(self) -> None:
        """Whoever held what was deleted does so no more."""
        for kind in self._resources:
            for one in self._keeper.current(kind):
                if _FINALIZER in (one["metadata"].get("finalizers") or ()):
                    left = [name for name in one["metadata"]["finalizers"] if name != _FINALIZER]
                    self._set_finalizers(kind, one, left)

    def _set_finalizers(self, kind: str, obj: Json, finalizers: list[str]) -> None:
        meta = obj["metadata"]
        change = {"metadata": {"uid": meta["uid"], "finalizers": finalizers or None}}
        self._client.patch(self._resources[kind], self._namespace, meta["name"], change, _decode)

    def _ours(self, kind: str, name: str) -> list[Json]:
        """The object of this name, unless it is a stranger's."""
        return [
            one
            for one in self._keeper.current(kind)
            if one["metadata"]["name"] == name and one["metadata"]["uid"] not in self._account.strangers
        ]

    def _orphan(self, job: str, kind: str) -> str:
        """A user takes the owner off, by a tool that knows nothing of owners, say."""
        found = self._ours(kind, _name(job, kind))
        for one in found:
            meta = one["metadata"]
            self._account.orphaned.add(meta["uid"])
            change = {"metadata": {"uid": meta["uid"], "ownerReferences": None}}
            answer = self._client.patch(self._resources[kind], self._namespace, meta["name"], change, _decode)
            self._keeper.add(answer, kind)
        return f"{kind} of {job} has no owner" if found else f"no {kind}"

    def _occupy(self, job: str, kind: str, *, at_once: bool, disguised: bool) -> str:
        """A stranger takes the name, `at_once` in the moment in which what has it is deleted.

        A `disguised` one has the labels of what belongs to the job, and a controller that is none.
        """
        name = _name(job, kind)
        if at_once:
            self._take(kind, name)
        metadata: Json = {"name": name}
        if disguised:
            uid = self._client.get(NAMESPACES, "", self._namespace, _decode)["metadata"]["uid"]
            owner = {"apiVersion": "v1", "kind": "Namespace", "name": self._namespace, "uid": uid, "controller": True}
            metadata |= {"labels": _labels(job, kind), "ownerReferences": [owner]}
        resource = self._resources[kind]
        # A real API server insists on these in what a CRD defines.
        body = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, "spec": _stranger(kind)}
        made = self._client.create(resource, self._namespace, body, _decode)
        self._account.strangers.add(made["metadata"]["uid"])
        self._keeper.add(made, kind)
        return f"{kind} {name} is somebody's"

    def _strangers(self, job: str) -> list[tuple[str, Json]]:
        return [
            (kind, one)
            for kind in self._resources
            for one in self._keeper.current(kind)
            if one["metadata"]["uid"] in self._account.strangers
            and (not job or one["metadata"]["name"] in (job, f"{job}-tensorboard"))
        ]

    def _remove(self, kind: str, obj: Json) -> str:
        meta = obj["metadata"]
        self._account.taken.add(meta["uid"])
        self._client.delete(
            self._resources[kind], self._namespace, meta["name"], uid=meta["uid"], propagation_policy="Background"
        )
        return f"{kind} {meta['name']} deleted"


def _name(job: str, kind: str) -> str:
    return job if kind == "PodGroup" else f"{job}-tensorboard"


def _labels(job: str, kind: str) -> dict[str, str]:
    labels = {"training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": job}
    return labels if kind == "PodGroup" else labels | {BOARD_LABEL: job}


def _stranger(kind: str) -> Json:
    if kind == "PodGroup":
        return {"minMember": 1}
    if kind == "Service":
        return {"ports": [{"port": 80}]}
    container = {"name": "main", "image": "example.invalid/other:1"}
    template = {"metadata": {"labels": {"app": "other"}}, "spec": {"containers": [container]}}
    return {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": template}
