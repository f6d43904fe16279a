from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hack.simulated_objects import SimulatedObjects
from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    NOW,
    OPTIONS,
    ReadablePlan,
    make_job,
    make_pod,
    plan_for,
    planned,
    services_of,
    started,
    with_status,
)
from tfoperator.api.kueue.queues import QUEUE_LABEL
from tfoperator.api.replicas import names
from tfoperator.api.v1.status import JobCondition
from tfoperator.api.v1.types import TFJob
from tfoperator.controller import PlanOptions
from tfoperator.controller.plan.values.actions import Action, Create, Patch
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.kube import apply_merge_patch
from tfoperator.kube.patches.strategic_merge import strategic_merge
from tfoperator.kube.views.deployments import Deployment, DeploymentStatus
from tfoperator.kube.views.objects import ObjectMeta, Service

BOARD: dict[str, Any] = {
    "logDir": "/logs/$run",
    "volumes": [{"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}],
    "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
}
NAME = "mnist-tensorboard"
PORT = "TENSORBOARD_PORT"
OPEN = plan_options(exposed_tensorboards=True)
NOT_EXPOSED = ("Warning", "TensorBoardNotExposed")
LABELS = names.tensorboard_labels("mnist")


def job(board: dict[str, Any] | None = BOARD, **spec: Any) -> TFJob:
    return make_job({"Worker": 1}, **({} if board is None else {"tensorBoard": board}), **spec)


class Objects(SimulatedObjects):
    """The TensorBoard's objects, as the API server has them after plans were carried out."""

    def __init__(self) -> None:
        super().__init__(job())
        self.bodies: dict[str, dict[str, Any]] = {}

    def carry_out_all(self, actions: Sequence[Action], *, available: int = 0) -> Objects:
        for action in actions:
            self.carry_out(action)
            if isinstance(action, Create):
                self.bodies[action.kind] = action.body
            elif isinstance(action, Patch):
                body, change = self.bodies[action.kind], action.body
                merge = partial(strategic_merge, kind="Deployment") if action.strategic else apply_merge_patch
                self.bodies[action.kind] = merge(body, change)
        for name, deployment in self.deployments.items():
            self.deployments[name] = replace(deployment, status=DeploymentStatus(available))
        return self

    def observed_with(self, board_job: TFJob, **more: Any) -> Observed:
        services = (*services_of(board_job), *self.services.values())
        deployments = tuple(self.deployments.values())
        return Observed(board_job, (make_pod("Worker-0"),), services, deployments=deployments, **more)

    def plan(self, board_job: TFJob, options: PlanOptions = OPTIONS, **more: Any) -> ReadablePlan:
        return plan_for(self.observed_with(board_job, **more), NOW, options)

    def annotate(self, **annotations: str) -> None:
        service = self.services[NAME]
        meta = replace(service.metadata, annotations=service.metadata.annotations | annotations)
        self.services[NAME] = Service(metadata=meta)

    def terminate(self) -> None:
        for objects in (self.deployments, self.services):
            meta = replace(objects[NAME].metadata, deletion_timestamp=NOW)
            objects[NAME] = replace(objects[NAME], metadata=meta)


def there(board: dict[str, Any] = BOARD, options: PlanOptions = OPTIONS, *, available: int = 0) -> Objects:
    """The TensorBoard of a job that asks for it, made."""
    objects = Objects()
    return objects.carry_out_all(objects.plan(started(job(board)), options).tensorboard_actions, available=available)


def kinds(actions: Sequence[Action]) -> list[tuple[str, str]]:
    return [(type(action).__name__, action.kind) for action in actions]


def test_its_service_is_reached_at_port_80_belongs_to_the_job_and_selects_no_replica() -> None:
    body = there().bodies["services"]
    assert body["spec"] == {
        "type": "ClusterIP",
        "selector": {names.LABEL_TENSORBOARD: "mnist"},
        "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
    }
    assert body["metadata"]["labels"] == LABELS
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TFJob", "job-uid", True)
    # Its pods have no label by which a job's replicas are found.
    spec = there().bodies["deployments"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == {names.LABEL_TENSORBOARD: "mnist"}
    assert not set(labels) & {names.LABEL_OPERATOR_NAME, names.LABEL_JOB_NAME, names.LABEL_REPLICA_TYPE}


def test_its_pod_runs_the_program_without_a_shell_and_without_privileges() -> None:
    for_a_private_bucket = {
        "nodeSelector": {"disk": "fast"},
        "serviceAccountName": "reader",
        "imagePullSecrets": [{"name": "registry"}],
    }
    key = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    own = {"image": "boards:1", "resources": {"limits": {"cpu": 1}}, "env": [key, {"name": PORT, "value": "80"}]}
    spec = there(BOARD | for_a_private_bucket | own).bodies["deployments"]["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == "boards:1"
    # A dollar sign stays one, where Kubernetes would see a variable.
    assert container["command"][:2] == ["tensorboard", "--logdir=/logs/$$run"]
    assert "args" not in container
    assert container["resources"] == {"limits": {"cpu": 1}}
    assert container["volumeMounts"] == BOARD["volumeMounts"]
    assert pod["volumes"] == BOARD["volumes"]
    assert container["env"][0] == key
    # Where it listens is not for the job to say: of two of a name Kubernetes takes the last.
    assert {variable["name"]: variable["value"] for variable in container["env"][1:]}[PORT] == "6006"
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["ports"][0]["containerPort"] > 1024
    assert pod["automountServiceAccountToken"] is False
    assert {name: pod[name] for name in for_a_private_bucket} == for_a_private_bucket
    assert spec["replicas"] == 1


@pytest.mark.parametrize("given", [{}, {"runAsUser": 1000, "fsGroup": 1000}])
def test_its_pod_is_nobodys_and_no_root_unless_the_job_says_more(given: dict[str, Any]) -> None:
    pod = there(BOARD | {"securityContext": given}).bodies["deployments"]["spec"]["template"]["spec"]
    nobody = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["securityContext"] == nobody | given


@pytest.mark.parametrize("available", [0, 1])
def test_once_it_is_there_nothing_is_done_and_the_status_says_where_and_if_it_is_ready(available: int) -> None:
    result = there(available=available).plan(started(job()))
    assert result.tensorboard_actions == ()
    board = result.status.tensor_board
    assert (board.url, board.ready) == (f"http://{NAME}.ns.svc", available == 1)
    assert result.write_status


def test_the_address_has_the_clusters_domain_or_is_what_its_publisher_says() -> None:
    objects = there()
    result = objects.plan(job(), plan_options(cluster_domain="cluster.local"))
    assert result.status.tensor_board.url == f"http://{NAME}.ns.svc.cluster.local"
    objects.annotate(**{names.ANNOTATION_TENSORBOARD_URL: "https://boards.example.com/mnist"})
    result = objects.plan(job())
    assert result.status.tensor_board.url == "https://boards.example.com/mnist"
    assert result.tensorboard_actions == ()


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"logDir": "/logs/b"}, ["deployments"]),
        ({"image": "boards:2"}, ["deployments"]),
        ({"volumes": [], "volumeMounts": []}, ["deployments"]),
        ({"serviceType": "NodePort"}, ["services"]),
        ({"serviceType": "ClusterIP"}, []),
        ({"logDir": "/logs/b", "serviceType": "LoadBalancer"}, ["services", "deployments"]),
    ],
)
def test_a_changed_spec_changes_what_was_made_from_it(change: dict[str, Any], changed: list[str]) -> None:
    objects = there()
    result = objects.plan(job(BOARD | change), OPEN)
    assert kinds(result.tensorboard_actions) == [("Patch", kind) for kind in changed]
    objects.carry_out_all(result.tensorboard_actions)
    assert objects.plan(job(BOARD | change), OPEN).tensorboard_actions == ()
    assert objects.bodies == there(BOARD | change, OPEN).bodies | {
        kind: {**body, "metadata": objects.bodies[kind]["metadata"]}
        for kind, body in there(BOARD | change, OPEN).bodies.items()
    }


@pytest.mark.parametrize("wanted", ["NodePort", "LoadBalancer"])
def test_a_service_is_reached_from_outside_only_where_administrators_allow_it(wanted: str) -> None:
    objects = there()
    closed = (OPTIONS, "ClusterIP", [wanted])
    for options, type_, refused in (closed, (OPEN, wanted, []), closed):
        for expected in (refused, []):  # said once, with the one change
            result = objects.plan(started(job(BOARD | {"serviceType": wanted})), options)
            warnings = [event for event in result.events if (event.type, event.reason) == NOT_EXPOSED]
            assert [f"spec.tensorBoard.serviceType: {service_type} is not allowed" for service_type in expected] == [
                event.message.partition(",")[0] for event in warnings
            ]
            objects.carry_out_all(result.tensorboard_actions)
            assert objects.bodies["services"]["spec"]["type"] == type_
        assert result.tensorboard_actions == ()


def test_it_survives_the_jobs_end_and_its_clean_up() -> None:
    pod = make_pod("Worker-0", "Succeeded", exit_code=0)
    board_job = started(job(runPolicy={"cleanPodPolicy": "All"}))
    objects = there(available=1)
    for _ in range(2):
        observed = replace(objects.observed_with(board_job), pods=(pod,))
        result = plan_for(observed)
        assert result.tensorboard_actions == ()
        assert [service.name for service in result.deletions("services")] == ["mnist-worker-0"]
        board_job = replace(board_job, status=result.status)
    assert board_job.status.phase == "Succeeded"
    assert board_job.status.tensor_board is not None


def test_while_the_job_runs_and_after_its_end_it_can_be_changed_and_removed() -> None:
    running = started(job())
    ended = planned(running, make_pod("Worker-0", "Succeeded", exit_code=0), services=())
    for status in (running.status, ended.status):
        changed, removed = (with_status(job(board), status) for board in (BOARD | {"image": "boards:2"}, None))
        assert kinds(there().plan(changed).tensorboard_actions) == [("Patch", "deployments")]
        result = there(available=1).plan(removed)
        assert kinds(result.tensorboard_actions) == [("Delete", "deployments"), ("Delete", "services")]
        assert result.status.tensor_board is None


def test_what_somebody_else_has_made_with_its_labels_is_left_alone() -> None:
    """`kubectl expose deployment mnist-tensorboard --name=tb` gives the new service the deployment's labels."""
    objects = there()
    exposed = Service(metadata=ObjectMeta(name="tb", namespace="ns", uid="u", labels=LABELS))
    copied = Deployment(metadata=ObjectMeta(name="copy", namespace="ns", uid="v", labels=LABELS))
    for wanted in (job(), job(None)):
        observed = objects.observed_with(wanted)
        more = replace(observed, services=(exposed, *observed.services), deployments=(copied, *observed.deployments))
        assert plan_for(more).tensorboard_actions == plan_for(observed).tensorboard_actions


boards = st.none() | st.fixed_dictionaries(
    {"logDir": st.sampled_from(["/a", "gs://b"])},
    optional={
        "image": st.sampled_from(["", "i:1"]),
        "serviceType": st.sampled_from(["", "NodePort"]),
        "resources": st.just({"limits": {"memory": "1Gi"}}),
        "nodeSelector": st.sampled_from([{}, {"a": "1"}, {"b": "2"}]),
        "securityContext": st.sampled_from([{"fsGroup": 1}, {"runAsUser": 1000}]),
        "serviceAccountName": st.sampled_from(["", "reader"]),
        "env": st.just([{"name": "AWS_REGION", "value": "x"}]),
        "imagePullSecrets": st.just([{"name": "registry"}]),
    },
)
steps = st.tuples(
    boards,
    st.booleans(),
    st.sampled_from(["run", "lose deployment", "lose service", "problem"]),
    st.sampled_from([OPTIONS, OPEN]),
)


@given(st.lists(steps, max_size=8), boards, st.booleans())
def test_whatever_happened_before_it_ends_up_as_the_spec_says(
    history: list[tuple[dict[str, Any] | None, bool, str, PlanOptions]], last: dict[str, Any] | None, ended: bool
) -> None:
    objects = Objects()
    for board, suspended, what, options in history:
        if what == "lose deployment":
            objects.deployments.clear()
        elif what == "lose service":
            objects.services.clear()
        problems = ("spec: is odd",) if what == "problem" else ()
        result = objects.plan(job(board, runPolicy={"suspend": suspended}), options, problems=problems)
        assert not problems or not result.tensorboard_actions
        objects.carry_out_all(result.tensorboard_actions)
    final = job(last)
    if ended:
        status = planned(started(final), make_pod("Worker-0", "Succeeded", exit_code=0), services=()).status
        final = replace(final, status=status)
    objects.carry_out_all(objects.plan(final).tensorboard_actions)
    again = objects.plan(final)
    assert again.tensorboard_actions == ()
    assert (bool(objects.services), bool(objects.deployments)) == (last is not None, last is not None)
    assert (again.status.tensor_board is not None) == (last is not None)
    if last is not None:
        fresh = there(last)
        assert {kind: body["spec"] for kind, body in objects.bodies.items()} == {
            kind: body["spec"] for kind, body in fresh.bodies.items()
        }


GPUS = BOARD | {"image": "example.com/miner:1", "resources": {"limits": {"nvidia.com/gpu": 8}}}
SUCCEEDED = JobCondition(type="Succeeded", status="True")
NOT_COUNTED = ("Warning", "TensorBoardNotCounted")


def in_queue(board: dict[str, Any] = GPUS, **status: Any) -> TFJob:
    queued = started(job(board))
    return replace(queued, metadata=replace(queued.metadata, labels={QUEUE_LABEL: "research"}))


def uncounted_events(plan: ReadablePlan) -> list[tuple[str, str]]:
    return [(event.type, event.reason) for event in plan.events if event.reason == NOT_COUNTED[1]]


@pytest.mark.parametrize(
    ("resources", "made"),
    [
        ({"limits": {"nvidia.com/gpu": 8}}, False),
        ({"requests": {"example.com/fpga": "1"}}, False),
        ({"limits": {"nvidia.com/gpu": "eight"}}, False),
        ({"limits": {"nvidia.com/gpu": 0, "cpu": "1"}, "requests": {"memory": "1Gi", "hugepages-2Mi": "2Mi"}}, True),
        (None, True),
    ],
)
def test_in_a_queue_it_gets_no_devices_which_no_quota_would_count(resources: Any, made: bool) -> None:
    board = BOARD | {"resources": resources}
    new = in_queue(board)
    new = replace(new, status=replace(new.status, observed_generation=0))
    plan = Objects().plan(new)
    assert bool(plan.tensorboard_actions) == made
    assert uncounted_events(plan) == ([] if made else [NOT_COUNTED])
    assert plan.creations("pods") or plan.status.conditions, "the job continues"
    assert Objects().plan(started(job(board))).tensorboard_actions, "without a queue it is as before"


def test_that_it_gets_no_devices_is_told_once_and_one_that_is_there_goes_also_after_the_jobs_end() -> None:
    quiet = in_queue()
    quiet = replace(quiet, status=replace(quiet.status, observed_generation=quiet.metadata.generation))
    assert uncounted_events(Objects().plan(quiet)) == []
    objects = there(GPUS)
    for board_job in (quiet, replace(quiet, status=replace(quiet.status, conditions=(SUCCEEDED,)))):
        plan = objects.plan(board_job)
        assert kinds(plan.tensorboard_actions) == [("Delete", "deployments"), ("Delete", "services")]
        assert uncounted_events(plan) == [NOT_COUNTED]
        assert plan.status.tensor_board is None
    ended = replace(quiet, status=replace(quiet.status, conditions=(SUCCEEDED,), observed_generation=0))
    assert uncounted_events(Objects().plan(ended)) == [], "a status of the Go operator has no observed generation, ever"
