"""More things that can happen in a scenario: functions of a world.

The functions that check something raise RuntimeError, but only where the operator sees everything at once and is never
disturbed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hack import kubelet
from hack.enumeration.world.world import NAMESPACE, World
from hack.faults.oracle.history import conditions_in
from hack.faults.plan.steps import Act, JobShape, Step
from hack.kubelet import container_status, running, terminated, waiting
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource

Json = dict[str, Any]
Happening = Callable[[World], object]

_OWN = ("nodeName", "clusterIP", "clusterIPs")
"""Fields whose values always differ between two objects."""

_decode = msgspec.json.Decoder(Json).decode


def _patches(resource: Resource, name: str, change: Json, subresource: str = "") -> Happening:
    return lambda world: bool(world.client.patch(resource, NAMESPACE, name, change, _decode, subresource=subresource))


def of_pod(name: str, **status: Any) -> Happening:
    """The status of a pod is changed so, as kubelets and schedulers do it."""
    return _patches(PODS, name, {"status": status}, "status")


def waits(reason: str, message: str = "", name: str = "tensorflow") -> Json:
    """The state of a container that does not run."""
    return container_status(waiting(reason, message), name=name)


def runs(restarts: int) -> Json:
    """The state of a container that runs, and was started again so often."""
    return container_status(running("2026-01-01T00:00:10Z"), restarts=restarts)


def ended(code: int, reason: str = "Error", name: str = "tensorflow") -> Json:
    """The state of a container that has ended."""
    return container_status(terminated(code, reason=reason), name=name)


def submits(shape: JobShape, template: Json, **spec: Any) -> Happening:
    """Somebody submits this job, whose workers have another template, and with this in its spec."""
    job = shape.manifest()
    job["spec"] |= spec
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"] = template
    return lambda world: bool(world.client.create(TFJOBS, NAMESPACE, job, _decode))


def respec(name: str, **spec: Any) -> Happening:
    """Somebody edits the spec of a job."""
    return _patches(TFJOBS, name, {"spec": spec})


def annotates(name: str, **annotations: str) -> Happening:
    """Somebody annotates a job; the names are those after `training.kubeflow.org/`, with _ for -."""
    prefixed = {f"training.kubeflow.org/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return _patches(TFJOBS, name, {"metadata": {"annotations": prefixed}})


def bind(world: World) -> str:
    """Bind each pod as a scheduler does: to the node of its index, and a pod that avoids a node to another node."""
    bound = []
    for pod in world.recorder.current("Pod"):
        if not pod["spec"].get("nodeName"):
            name = pod["metadata"]["name"]
            node = "node-9" if pod["spec"].get("affinity") else f"node-{name[-1]}"
            kubelet.bind(world.client, NAMESPACE, name, node)
            bound.append(f"{name} to {node}")
    return ", ".join(bound)


def one_after_another(world: World) -> str:
    """Let pods begin to run, each a moment after the pod before it."""
    for _ in range(8):
        world.simulator.act(Step(0, Act.RUN))
        world.run_for(0.3)
    return "all run"


def _now(world: World) -> str:
    return f"{world.clock.now():%Y-%m-%dT%H:%M:%SZ}"


def _report(world: World, **members: Any) -> None:
    progress = {"step": 10, "lastUpdatedTime": _now(world), **members}
    _patches(TFJOBS, "job-0", {"status": {"progress": progress}}, "status")(world)


def is_slow(name: str) -> Happening:
    """The programs report, and find that this replica has been slow for long."""

    def happen(world: World) -> str:
        world.run_for(30)
        _report(world, slow=[{"name": name, "step": 9, "factor": "2.1", "lastUpdatedTime": _now(world)}])
        return f"{name} is slow"

    return happen


def reports_loss(value: str, times: int) -> Happening:
    """Return a happening: worker 0 reports a loss, after `times` consecutive reports whose loss is not a number."""

    def happen(world: World) -> str:
        world.run_for(5)
        loss = {"name": "loss", "value": value}
        _report(world, metrics=[loss], lossNotANumber=times, replica="worker-0")
        return f"the loss is {value}"

    return happen


def writes_a_line(*names: str) -> Happening:
    """The programs of these pods log something."""
    return lambda world: world.lines.update({name: world.clock.now() for name in names})


def silence(seconds: float) -> Happening:
    """Return a happening in which only time passes: this number of seconds."""
    return lambda world: world.run_for(seconds)


def says(condition: str, *texts: str, status: str = "") -> Happening:
    """Return a check that the message of a job's condition contains these texts."""

    def look(world: World) -> str:
        if not world.is_prompt:
            return "not looked"
        [job] = world.recorder.current("TFJob")
        current = {item["type"]: item for item in conditions_in(job["status"])}.get(condition) or {"message": ""}
        if missing := [text for text in texts if text not in current["message"]]:
            raise RuntimeError(f"{condition} does not say {missing}: {current['message']!r}")
        if status and current.get("status") != status:
            raise RuntimeError(f"{condition} is {current.get('status')}, not {status}")
        return "as it has to be"

    return look


def sends_event(reason: str, *texts: str) -> Happening:
    """Return a check that an event with this reason was sent, and that its message contains these texts."""

    def look(world: World) -> str:
        messages = [event.message for event in world.sent_events if event.reason == reason]
        if world.is_prompt and not any(all(text in message for text in texts) for message in messages):
            raise RuntimeError(f"no event {reason} contains {texts}: {messages}")
        return "as it has to be"

    return look


def unheard(*happenings: Happening) -> Happening:
    """Return a check that these happenings are no news: the operator writes no condition because of them."""

    def happen(world: World) -> str:
        before = world.recorder.current("TFJob")
        for happening in happenings:
            happening(world)
        world.run_for(2.5)
        then, now = (
            [conditions_in(job["status"]) for job in jobs] for jobs in (before, world.recorder.current("TFJob"))
        )
        if then != now and world.is_prompt:
            raise RuntimeError(f"a condition was written for what is no news: {now}")
        return "no news"

    return happen


def labels(name: str, value: str | None) -> Happening:
    """Somebody gives a label of Kueue's to the job, or takes it away; the name is that after `kueue.x-k8s.io/`."""
    return _patches(TFJOBS, "job-0", {"metadata": {"labels": {f"kueue.x-k8s.io/{name}": value}}})


def deletes_workload(world: World) -> str:
    """Delete the job's Workload, as somebody else does."""
    workloads = world.recorder.current("Workload")
    for workload in workloads:
        world.simulator.interventions.deleted_by_plan.add(workload["metadata"]["uid"])
        world.client.delete(WORKLOADS, NAMESPACE, workload["metadata"]["name"])
    return f"{len(workloads)} Workloads are deleted"


def twice(name: str) -> Happening:
    """Return a happening: a copy of this replica's pod and service appears, under other names."""

    def happen(world: World) -> str:
        every = [(resource, obj) for resource in (SERVICES, PODS) for obj in world.recorder.current(resource.kind)]
        matches = [(resource, obj) for resource, obj in every if f"-{name}" in obj["metadata"]["name"]]
        for resource, obj in matches if len(matches) == 2 else ():
            meta = {key: obj["metadata"].get(key) for key in ("labels", "annotations", "ownerReferences")}
            spec = {key: value for key, value in obj["spec"].items() if key not in _OWN}
            body = {"metadata": {"name": f"job-0-{name}", **meta}, "spec": spec}
            made = world.client.create(resource, NAMESPACE, body, _decode)
            world.simulator.interventions.doubles.add(made["metadata"]["uid"])
        return f"{len(matches)} objects of {name} are there twice"

    return happen
