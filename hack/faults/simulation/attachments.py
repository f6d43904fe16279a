"""Simulates who else works on TensorBoards and PodGroups: the deployment controller, the gang scheduler, users.

Some users make foreign objects: these have the name of a job's TensorBoard or PodGroup, and belong to no job. This is a
part of the cluster's simulation, and notes in the same journal what it did to which object.
"""

from __future__ import annotations

from contextlib import suppress

from hack.faults.plan.attachments import JOB_SERVICE, Attachments
from hack.faults.plan.steps import Act, Step
from hack.faults.simulation.namespace import Json, Namespace, uid_of
from hack.faults.simulation.pod_groups import pod_groups_of
from hack.faults.simulation.pod_status import phase_of
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import DEPLOYMENTS, NAMESPACES, PODS, SERVICES, Resource

TENSORBOARD_LABEL = "training.kubeflow.org/tensorboard"
"""On all that a TensorBoard consists of, and on nothing else."""

_HELD, _PUSHED_OUT = 0.3, 0.2
"""How often what a user deletes is held by a finalizer, and a gang that Volcano looks at has to wait again."""

_FINALIZER = "example.invalid/held"
_ENDED = ("Succeeded", "Failed")


def watched_kinds(attachments: Attachments) -> dict[str, Resource]:
    """The kinds that a journal has to record for these attachments."""
    kinds = {"Deployment": DEPLOYMENTS} if attachments.tensorboards else {}
    kinds |= {"Workload": WORKLOADS} if attachments.queues else {}
    return kinds | ({"PodGroup": pod_groups_of(attachments.gang)} if attachments.gang else {})


class AttachmentSimulator:
    """Acts in one namespace. For one thread."""

    def __init__(self, namespace: Namespace, attachments: Attachments) -> None:
        self._namespace = namespace
        self._recorder = namespace.recorder
        self._interventions = namespace.interventions
        self._resources = {"Service": SERVICES, "Pod": PODS, **watched_kinds(attachments)}

    def act(self, step: Step, job: str) -> str:
        """Do the step; return its result. Raises KubeError."""
        match step.act:
            case Act.RUN_TENSORBOARD:
                return (
                    ", ".join(self._serve(tensorboard) for tensorboard in self._tensorboards(job)) or "no TensorBoard"
                )
            case Act.FAIL_TENSORBOARD_POD:
                return self._lose(job, str(step.value))
            case Act.DELETE_TENSORBOARD:
                return self._take(str(step.value), f"{job}-tensorboard", held=step.pick < _HELD)
            case Act.ADMIT_GANG:
                phase = "Pending" if step.pick > 1 - _PUSHED_OUT else "Inqueue"
                return ", ".join(self._admit(group, phase) for group in self._groups(job)) or "no PodGroup"
            case Act.DELETE_POD_GROUP:
                return self._take("PodGroup", job, held=step.pick < _HELD)
            case Act.ORPHAN:
                return self._orphan(job, str(step.value))
            case Act.CREATE_FOREIGN:
                return self._create_foreign(
                    job, str(step.value), at_once=step.pick < 0.5, disguised=step.pick * 10 % 1 < 0.5
                )
            case _:
                self._remove_finalizers()
                return (
                    ", ".join(self._remove(kind, obj) for kind, obj in self._foreign_objects(job))
                    or "no foreign object"
                )

    def make_progress(self) -> None:
        """Do what happens when nothing is wrong: foreign objects go, gangs are admitted, TensorBoards run."""
        for kind, foreign in self._foreign_objects(""):
            with suppress(KubeError):  # all of this is done again and again
                self._remove(kind, foreign)
        with suppress(KubeError):
            self._remove_finalizers()
        for group in self._groups(""):
            with suppress(KubeError):
                self._admit(group, "Inqueue")
        for deployment in self._tensorboards(""):
            with suppress(KubeError):
                self._serve(deployment)

    # TensorBoards.

    def _tensorboards(self, job: str) -> list[Json]:
        """The Deployments of a job's TensorBoard, or of all."""
        return [
            deployment
            for deployment in self._recorder.current("Deployment")
            if not deployment["metadata"].get("deletionTimestamp")
            and deployment["metadata"]["uid"] not in self._interventions.foreign_objects
            and (job_name := (deployment["metadata"].get("labels") or {}).get(TENSORBOARD_LABEL)) is not None
            and job in ("", job_name)
        ]

    def _pods(self, deployment: Json) -> list[Json]:
        uid = deployment["metadata"]["uid"]
        return [
            pod
            for pod in self._recorder.current("Pod")
            if uid in {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}
        ]

    def _serve(self, deployment: Json) -> str:
        """As the deployment controller and a kubelet do it: one pod, which the Deployment's status counts."""
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
                self._namespace.patch(PODS, name, change, "status")
        self._set_available(deployment, 1)
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
        return self._namespace.create(PODS, body)

    def _set_available(self, deployment: Json, available: int) -> None:
        if ((deployment.get("status") or {}).get("availableReplicas") or 0) == available:
            return
        name, counts = deployment["metadata"]["name"], ("replicas", "readyReplicas", "availableReplicas")
        change = {"metadata": {"uid": deployment["metadata"]["uid"]}, "status": dict.fromkeys(counts, available)}
        self._namespace.patch(DEPLOYMENTS, name, change, "status")

    def _lose(self, job: str, how: str) -> str:
        candidates = [
            (tensorboard, pod)
            for tensorboard in self._tensorboards(job)
            for pod in self._pods(tensorboard)
            if phase_of(pod) not in _ENDED
        ]
        if not candidates:
            return "no such pod"
        [(deployment, pod), *_] = candidates
        if how == "kill":
            self._remove("Pod", pod)
        else:
            status = {"phase": "Failed", "reason": "Evicted" if how == "evict" else None}
            name = pod["metadata"]["name"]
            self._namespace.patch_unrecorded(PODS, name, {"status": status}, "status")
        self._set_available(deployment, 0)
        return f"{pod['metadata']['name']} {how}"

    # PodGroups.

    def _groups(self, job: str) -> list[Json]:
        """The PodGroup of a job, or of all."""
        return [
            group
            for group in self._recorder.current("PodGroup")
            if job in ("", group["metadata"]["name"])
            and group["metadata"]["uid"] not in self._interventions.foreign_objects
        ]

    def _admit(self, group: Json, phase: str) -> str:
        """Report, as Volcano does, that there is room, or no more. Gangs of the other kind are not affected."""
        name = group["metadata"]["name"]
        if (group.get("status") or {}).get("phase") != phase:
            change = {"metadata": {"uid": group["metadata"]["uid"]}, "status": {"phase": phase}}
            self._namespace.patch(self._resources["PodGroup"], name, change, "status")
        return f"{name} {phase}"

    # Users, and their foreign objects.

    def _take(self, kind: str, name: str, *, held: bool = False) -> str:
        """Delete it; if it is `held`, a finalizer keeps it for a while."""
        objects = self._ours(kind, name)
        if held:
            for obj in objects:
                self._set_finalizers(kind, obj, [_FINALIZER])
        return ", ".join(self._remove(kind, obj) for obj in objects) or f"no {kind} {name}"

    def _remove_finalizers(self) -> None:
        """Take the finalizers off again that hold what was deleted."""
        for kind in self._resources:
            for obj in self._recorder.current(kind):
                if _FINALIZER in (obj["metadata"].get("finalizers") or ()):
                    left = [name for name in obj["metadata"]["finalizers"] if name != _FINALIZER]
                    self._set_finalizers(kind, obj, left)

    def _set_finalizers(self, kind: str, obj: Json, finalizers: list[str]) -> None:
        meta = obj["metadata"]
        change = {"metadata": {"uid": meta["uid"], "finalizers": finalizers or None}}
        self._namespace.patch_unrecorded(self._resources[kind], meta["name"], change)

    def _ours(self, kind: str, name: str) -> list[Json]:
        """Return the object of this name, unless it is a foreign object."""
        return [
            obj
            for obj in self._recorder.current(kind)
            if obj["metadata"]["name"] == name and obj["metadata"]["uid"] not in self._interventions.foreign_objects
        ]

    def _orphan(self, job: str, kind: str) -> str:
        """A user removes the owner reference, for example with a tool that does not know them."""
        objects = self._ours(kind, _name(job, kind))
        for obj in objects:
            meta = obj["metadata"]
            self._interventions.orphaned.add(meta["uid"])
            change = {"metadata": {"uid": meta["uid"], "ownerReferences": None}}
            self._namespace.patch(self._resources[kind], meta["name"], change)
        return f"{kind} of {job} has no owner" if objects else f"no {kind}"

    def _create_foreign(self, job: str, kind: str, *, at_once: bool, disguised: bool) -> str:
        """A user makes a foreign object of this name; `at_once`, right after the object that has the name is deleted.

        A `disguised` object has the labels of the job's objects, and a controller that does not exist.
        """
        name, labels = _name(job, kind), _labels(job, kind)
        kind = "Service" if kind == JOB_SERVICE else kind
        if at_once:
            self._take(kind, name)
        metadata: Json = {"name": name}
        if disguised:
            ns = self._namespace.name
            uid = uid_of(self._namespace.get(NAMESPACES, ns))
            owner = {"apiVersion": "v1", "kind": "Namespace", "name": ns, "uid": uid, "controller": True}
            metadata |= {"labels": labels, "ownerReferences": [owner]}
        resource = self._resources[kind]
        # A real API server insists on these in what a CRD defines.
        body = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, "spec": _foreign_spec(kind)}
        made = self._namespace.create(resource, body)
        self._interventions.foreign_objects.add(made["metadata"]["uid"])
        self._recorder.add(made, kind)
        return f"{kind} {name} is a foreign object"

    def _foreign_objects(self, job: str) -> list[tuple[str, Json]]:
        return [
            (kind, obj)
            for kind in self._resources
            for obj in self._recorder.current(kind)
            if obj["metadata"]["uid"] in self._interventions.foreign_objects
            and (not job or obj["metadata"]["name"] in (job, f"{job}-tensorboard"))
        ]

    def _remove(self, kind: str, obj: Json) -> str:
        name = self._namespace.delete(self._resources[kind], obj, propagation_policy="Background")
        return f"{kind} {name} deleted"


_OF_JOB = ("PodGroup", JOB_SERVICE)
"""Kinds of objects with the job's own name."""


def _name(job: str, kind: str) -> str:
    return job if kind in _OF_JOB else f"{job}-tensorboard"


def _labels(job: str, kind: str) -> dict[str, str]:
    labels = {"training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": job}
    return labels if kind in _OF_JOB else labels | {TENSORBOARD_LABEL: job}


def _foreign_spec(kind: str) -> Json:
    if kind == "PodGroup":
        return {"minMember": 1}
    if kind == "Service":
        return {"ports": [{"port": 80}]}
    container = {"name": "main", "image": "example.invalid/other:1"}
    template = {"metadata": {"labels": {"app": "other"}}, "spec": {"containers": [container]}}
    return {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": template}
