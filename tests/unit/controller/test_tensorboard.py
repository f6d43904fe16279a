from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controller.builders import NOW, OPTIONS, make_job, make_pod, services_of, started
from tfoperator.api import names
from tfoperator.api.v1.types import TFJob
from tfoperator.controller import BoardAction, BoardCreate, BoardDelete, BoardPatch, Plan, PlanOptions
from tfoperator.controller.plan import Observed, plan
from tfoperator.kube.objects import Deployment, DeploymentStatus, ObjectMeta, Service

BOARD: dict[str, Any] = {
    "logDir": "/logs/$run",
    "volumes": [{"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}],
    "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
}
NAME = "mnist-tensorboard"
LABELS = names.tensorboard_labels("mnist")


def job(board: dict[str, Any] | None = BOARD, **spec: Any) -> TFJob:
    return make_job({"Worker": 1}, **({} if board is None else {"tensorBoard": board}), **spec)


class Objects:
    """The TensorBoard's objects, as the API server has them after plans were carried out."""

    def __init__(self) -> None:
        self.deployment: Deployment | None = None
        self.service: Service | None = None
        self.bodies: dict[str, dict[str, Any]] = {}

    def carry_out(self, actions: Sequence[BoardAction], *, available: int = 0) -> Objects:
        for action in actions:
            match action:
                case BoardCreate(kind=kind, body=body):
                    assert getattr(self, kind[:-1]) is None, "created although it is there"
                    self._put(kind, body["metadata"]["annotations"], available)
                    self.bodies[kind] = body
                case BoardPatch(kind=kind, body=body):
                    current = getattr(self, kind[:-1])
                    assert current.metadata.uid == body["metadata"]["uid"]
                    self._put(kind, current.metadata.annotations | body["metadata"]["annotations"], available)
                    self.bodies[kind]["spec"] |= body["spec"]
                case BoardDelete(kind=kind):
                    setattr(self, kind[:-1], None)
        return self

    def observed(self, job: TFJob, **more: Any) -> Observed:
        services = (*services_of(job), *((self.service,) if self.service else ()))
        deployments = (self.deployment,) if self.deployment else ()
        return Observed(job, (make_pod("Worker-0"),), services, deployments=deployments, **more)

    def plan(self, job: TFJob, options: PlanOptions = OPTIONS, **more: Any) -> Plan:
        return plan(self.observed(job, **more), NOW, options)

    def annotate(self, **annotations: str) -> None:
        assert self.service is not None
        meta = msgspec.structs.replace(
            self.service.metadata, annotations=self.service.metadata.annotations | annotations
        )
        self.service = Service(metadata=meta)

    def terminate(self) -> None:
        for kind in ("deployment", "service"):
            one = getattr(self, kind)
            meta = msgspec.structs.replace(one.metadata, deletion_timestamp=NOW)
            setattr(self, kind, msgspec.structs.replace(one, metadata=meta))

    def _put(self, kind: str, annotations: dict[str, str], available: int) -> None:
        meta = ObjectMeta(name=NAME, namespace="ns", uid=f"{kind}-uid", labels=LABELS, annotations=annotations)
        if kind == "deployments":
            self.deployment = Deployment(metadata=meta, status=DeploymentStatus(available))
        else:
            self.service = Service(metadata=meta)


def there(board: dict[str, Any] = BOARD, *, available: int = 0) -> Objects:
    """The TensorBoard of a job that asks for it, made."""
    objects = Objects()
    return objects.carry_out(objects.plan(started(job(board))).board, available=available)


def kinds(actions: Sequence[BoardAction]) -> list[tuple[str, str]]:
    return [(type(action).__name__.removeprefix("Board"), action.kind) for action in actions]


def test_a_job_that_asks_for_none_gets_none() -> None:
    result = Objects().plan(job(None))
    assert result.board == ()
    assert result.status.tensor_board is None


def test_a_service_and_a_deployment_are_made_with_the_first_pods() -> None:
    result = plan(Observed(job()), NOW, OPTIONS)
    assert len(result.create_pods) == 1
    assert kinds(result.board) == [("Create", "services"), ("Create", "deployments")]
    assert {action.name for action in result.board} == {NAME}


def test_its_service_is_reached_at_port_80_and_belongs_to_the_job() -> None:
    body = there().bodies["services"]
    assert body["spec"] == {
        "type": "ClusterIP",
        "selector": {names.LABEL_TENSORBOARD: "mnist"},
        "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
    }
    assert body["metadata"]["labels"] == LABELS
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TFJob", "job-uid", True)


def test_its_pod_runs_the_program_without_a_shell_and_without_privileges() -> None:
    spec = there(BOARD | {"image": "boards:1", "resources": {"limits": {"cpu": 1}}}).bodies["deployments"]["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == "boards:1"
    # A dollar sign stays one, where Kubernetes would see a variable.
    assert container["command"][:2] == ["tensorboard", "--logdir=/logs/$$run"]
    assert "args" not in container
    assert container["resources"] == {"limits": {"cpu": 1}}
    assert container["volumeMounts"] == BOARD["volumeMounts"]
    assert pod["volumes"] == BOARD["volumes"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["ports"][0]["containerPort"] > 1024
    assert pod["automountServiceAccountToken"] is False
    assert spec["replicas"] == 1


def test_its_pods_have_no_label_by_which_a_jobs_replicas_are_found() -> None:
    spec = there().bodies["deployments"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == {names.LABEL_TENSORBOARD: "mnist"}
    assert not set(labels) & {names.LABEL_OPERATOR_NAME, names.LABEL_JOB_NAME, names.LABEL_REPLICA_TYPE}


def test_the_operators_image_is_used_where_the_job_names_none() -> None:
    objects = Objects()
    objects.carry_out(objects.plan(job(BOARD | {"image": ""}), PlanOptions(default_tensorboard_image="ours:1")).board)
    assert objects.bodies["deployments"]["spec"]["template"]["spec"]["containers"][0]["image"] == "ours:1"


def test_once_it_is_there_nothing_is_done_and_the_status_says_where() -> None:
    result = there().plan(started(job()))
    assert result.board == ()
    assert result.status.tensor_board is not None
    assert (result.status.tensor_board.url, result.status.tensor_board.ready) == (f"http://{NAME}.ns.svc", False)
    assert result.write_status


def test_it_is_ready_when_its_page_answers() -> None:
    result = there(available=1).plan(started(job()))
    assert result.status.tensor_board is not None
    assert result.status.tensor_board.ready


def test_the_address_has_the_clusters_domain_or_is_what_its_publisher_says() -> None:
    objects = there()
    result = objects.plan(job(), PlanOptions(cluster_domain="cluster.local"))
    assert result.status.tensor_board is not None
    assert result.status.tensor_board.url == f"http://{NAME}.ns.svc.cluster.local"
    objects.annotate(**{names.ANNOTATION_TENSORBOARD_URL: "https://boards.example.com/mnist"})
    result = objects.plan(job())
    assert result.status.tensor_board is not None
    assert result.status.tensor_board.url == "https://boards.example.com/mnist"
    assert result.board == ()


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
    result = objects.plan(job(BOARD | change))
    assert kinds(result.board) == [("Patch", kind) for kind in changed]
    objects.carry_out(result.board)
    assert objects.plan(job(BOARD | change)).board == ()
    assert objects.bodies == there(BOARD | change).bodies | {
        kind: {**body, "metadata": objects.bodies[kind]["metadata"]}
        for kind, body in there(BOARD | change).bodies.items()
    }


def test_taken_out_of_the_spec_it_goes_at_once() -> None:
    result = there(available=1).plan(started(job(None)))
    assert kinds(result.board) == [("Delete", "deployments"), ("Delete", "services")]
    assert result.status.tensor_board is None


def test_it_survives_the_jobs_end_and_its_clean_up() -> None:
    pod = make_pod("Worker-0", "Succeeded", exit_code=0)
    board_job = started(job(runPolicy={"cleanPodPolicy": "All"}))
    objects = there(available=1)
    for _ in range(2):
        seen = msgspec.structs.replace(objects.observed(board_job), pods=(pod,))
        result = plan(seen, NOW, OPTIONS)
        assert result.board == ()
        assert [service.name for service in result.delete_services] == ["mnist-worker-0"]
        board_job = msgspec.structs.replace(board_job, status=result.status)
    assert board_job.status.phase == "Succeeded"
    assert board_job.status.tensor_board is not None


def test_after_the_jobs_end_it_can_still_be_changed_and_removed() -> None:
    ended = plan(Observed(started(job()), (make_pod("Worker-0", "Succeeded", exit_code=0),)), NOW, OPTIONS).status
    for board, expected in ((BOARD | {"image": "boards:2"}, "Patch"), (None, "Delete")):
        result = there().plan(msgspec.structs.replace(job(board), status=ended))
        assert {kind for kind, _ in kinds(result.board)} == {expected}


def test_a_suspended_job_keeps_what_it_has_and_gets_nothing_new() -> None:
    suspended = job(runPolicy={"suspend": True})
    assert Objects().plan(suspended).board == ()
    result = there().plan(suspended)
    assert result.board == ()
    assert {service.name for service in result.delete_services} == {"mnist-worker-0"}
    assert result.status.tensor_board is not None


def test_an_invalid_job_leaves_it_alone() -> None:
    broken = started(job())
    result = there().plan(msgspec.structs.replace(broken, spec=job(None).spec), problems=("spec: is odd",))
    assert result.board == ()
    assert result.status.tensor_board == broken.status.tensor_board


def test_what_terminates_keeps_its_name_until_it_is_gone() -> None:
    objects = there()
    objects.terminate()
    result = objects.plan(job(BOARD | {"image": "boards:2"}))
    assert result.board == ()
    assert result.status.tensor_board is None
    assert objects.plan(job(None)).board == ()


def test_an_object_with_its_labels_under_another_name_is_removed() -> None:
    objects = there()
    stray = Service(metadata=ObjectMeta(name="stray", namespace="ns", uid="u", labels=LABELS))
    seen = objects.observed(job())
    result = plan(msgspec.structs.replace(seen, services=(*seen.services, stray)), NOW, OPTIONS)
    assert result.board == (BoardDelete("services", "stray", "u"),)


boards = st.none() | st.fixed_dictionaries(
    {"logDir": st.sampled_from(["/a", "gs://b"])},
    optional={
        "image": st.sampled_from(["", "i:1"]),
        "serviceType": st.sampled_from(["", "NodePort"]),
        "resources": st.just({"limits": {"memory": "1Gi"}}),
    },
)
steps = st.tuples(boards, st.booleans(), st.sampled_from(["run", "lose deployment", "lose service", "problem"]))


@given(st.lists(steps, max_size=8), boards, st.booleans())
def test_whatever_happened_before_it_ends_up_as_the_spec_says(
    history: list[tuple[dict[str, Any] | None, bool, str]], last: dict[str, Any] | None, ended: bool
) -> None:
    objects = Objects()
    for board, suspended, what in history:
        if what == "lose deployment":
            objects.deployment = None
        elif what == "lose service":
            objects.service = None
        problems = ("spec: is odd",) if what == "problem" else ()
        result = objects.plan(job(board, runPolicy={"suspend": suspended}), problems=problems)
        assert not problems or not result.board
        objects.carry_out(result.board)
    final = job(last)
    if ended:
        status = plan(Observed(started(final), (make_pod("Worker-0", "Succeeded", exit_code=0),)), NOW, OPTIONS).status
        final = msgspec.structs.replace(final, status=status)
    objects.carry_out(objects.plan(final).board)
    again = objects.plan(final)
    assert again.board == ()
    assert (objects.service is not None, objects.deployment is not None) == (last is not None, last is not None)
    assert (again.status.tensor_board is not None) == (last is not None)
    if last is not None:
        fresh = there(last)
        assert {kind: body["spec"] for kind, body in objects.bodies.items()} == {
            kind: body["spec"] for kind, body in fresh.bodies.items()
        }
