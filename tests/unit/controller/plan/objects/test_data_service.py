"""`spec.dataService`: a dispatcher and data workers, which never end the job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    NOW,
    OPTIONS,
    TEMPLATE,
    ReadablePlan,
    make_job,
    make_pod,
    plan_for,
    services_of,
    started,
    waiting,
    with_status,
)
from tfoperator.api.replicas.data_service import (
    DISPATCHER,
    DataServiceMember,
    DataServiceRole,
    member_labels,
    member_suffix,
)
from tfoperator.api.replicas.names import ANNOTATION_RESTARTS, job_labels
from tfoperator.api.v1.choices import Network
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.data_service import DataServiceStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.values.actions import Create, PhaseName
from tfoperator.controller.plan.values.observed import Observed, QueueGate, Unseen, deciding_pods
from tfoperator.controller.pods.gang import gang_scheduler
from tfoperator.controller.pods.naming import UNIQUE_NAMES
from tfoperator.kube.views.objects import ObjectMeta, Pod, Service

FIRST = (DataServiceRole.WORKER, 0)
SECOND = (DataServiceRole.WORKER, 1)
ALL = (DISPATCHER, FIRST, SECOND)


def job_with_service(workers: int = 2, replicas: Any = 1, **spec: Any) -> TFJob:
    service = spec.pop("dataService", {"workers": workers})
    return make_job({"Worker": replicas}, dataService=service, **spec)


def member_pod(member: DataServiceMember, phase: str = "Running", **given: Any) -> Pod:
    labels = job_labels("mnist") | member_labels(member)
    return make_pod("Worker-0", phase, labels=labels, name=f"mnist-{member_suffix(member)}", **given)


def member_service(member: DataServiceMember) -> Service:
    name = f"mnist-{member_suffix(member)}"
    labels = job_labels("mnist") | member_labels(member)
    return Service(metadata=ObjectMeta(name=name, namespace="ns", uid=name + "-service", labels=labels))


def planned(job: TFJob, *pods: Pod, members: tuple[DataServiceMember, ...] = ALL, **facts: Any) -> ReadablePlan:
    """The plan for a job with the services of its replicas, and of these members."""
    services = facts.pop("services", (*services_of(job), *map(member_service, members)))
    now, options = facts.pop("now", NOW), facts.pop("options", OPTIONS)
    return plan_for(Observed(job, pods, services, **facts), now, options)


def running(**given: Any) -> list[Pod]:
    """A worker and a data service of two data workers, all of which run."""
    return [make_pod("Worker-0"), *(member_pod(member, **given) for member in ALL)]


def created(plan: ReadablePlan) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, Create) and action.kind == "pods"]


def created_services(plan: ReadablePlan) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, Create) and action.kind == "services"]


def deleted(plan: ReadablePlan) -> list[str]:
    return [action.name for action in plan.deletions("pods")]


def body_of(plan: ReadablePlan, name: str, kind: str = "pods") -> dict[str, Any]:
    return next(
        action.body
        for action in plan.actions
        if isinstance(action, Create) and action.kind == kind and action.name == name
    )


def variables(body: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in body["spec"]["containers"][0].get("env", ())}


def status_of(plan: ReadablePlan) -> DataServiceStatus:
    assert plan.status.data_service is not None
    return plan.status.data_service


def settled(job: TFJob, *pods: Pod) -> TFJob:
    """The job with the status that a plan has written while these pods ran."""
    return with_status(job, planned(with_status(job, planned(job, *pods).status), *pods).status)


ADDRESS = "grpc://mnist-dispatcher-0.ns.svc:5050"


def test_a_new_job_gets_a_dispatcher_and_data_workers_with_a_service_each() -> None:
    plan = planned(job_with_service(), members=())
    assert created(plan) == ["mnist-worker-0", "mnist-dispatcher-0", "mnist-dataworker-0", "mnist-dataworker-1"]
    assert created_services(plan) == ["mnist-dispatcher-0", "mnist-dataworker-0", "mnist-dataworker-1"]
    service = body_of(plan, "mnist-dataworker-1", "services")
    assert service["spec"]["selector"].items() <= body_of(plan, "mnist-dataworker-1")["metadata"]["labels"].items()
    assert service["spec"]["ports"] == [{"name": "data-service", "port": 5050}]


def test_replicas_and_members_find_the_dispatcher_at_one_address() -> None:
    plan = planned(job_with_service(replicas=2), members=())
    assert variables(body_of(plan, "mnist-worker-1"))["TF_DATA_SERVICE"] == ADDRESS
    worker = variables(body_of(plan, "mnist-dataworker-1"))
    assert worker == {"TF_DATA_SERVICE": ADDRESS, "TF_DATA_SERVICE_ADDRESS": "mnist-dataworker-1.ns.svc:5050"}
    assert "dataworker" not in variables(body_of(plan, "mnist-worker-1"))["TF_CONFIG"]


def test_a_variable_that_the_user_sets_wins_and_parameter_servers_get_none() -> None:
    template = {
        "spec": {
            "containers": [{**TEMPLATE["spec"]["containers"][0], "env": [{"name": "TF_DATA_SERVICE", "value": "x"}]}]
        }
    }
    plan = planned(make_job({"Worker": {"template": template}, "PS": 1}, dataService={"workers": 1}), members=())
    assert variables(body_of(plan, "mnist-worker-0"))["TF_DATA_SERVICE"] == "x"
    assert "TF_DATA_SERVICE" not in variables(body_of(plan, "mnist-ps-0"))


def test_in_a_job_of_one_service_members_have_a_name_in_that_service() -> None:
    plan = planned(
        job_with_service(network="PerJob"),
        services=(),
        options=msgspec.structs.replace(OPTIONS, network=Network.PER_JOB),
    )
    body = body_of(plan, "mnist-dispatcher-0")
    assert (body["spec"]["hostname"], body["spec"]["subdomain"]) == ("mnist-dispatcher-0", "mnist")
    assert variables(body)["TF_DATA_SERVICE"] == "grpc://mnist-dispatcher-0.mnist.ns.svc:5050"
    assert created_services(plan) == ["mnist"]


def test_pods_without_a_template_are_like_the_workers_pods_without_devices_sidecars_and_probes() -> None:
    container = {
        "name": "tensorflow",
        "image": "example.com/train:1",
        "command": ["python", "train.py"],
        "args": ["--steps=3"],
        "env": [{"name": "BUCKET", "value": "b"}, {"name": "TF_CONFIG", "value": "mine"}],
        "resources": {"limits": {"cpu": 4, "nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 2}},
        "livenessProbe": {"exec": {"command": ["true"]}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "containers": [{"name": "proxy", "image": "p"}, container],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "activeDeadlineSeconds": 60,
        "restartPolicy": "Never",
    }
    plan = planned(job_with_service(replicas={"replicas": 1, "template": {"spec": pod}}), members=())
    spec = body_of(plan, "mnist-dataworker-0")["spec"]
    (made,) = spec["containers"]
    assert made["image"] == "example.com/train:1"
    assert made["command"][:3] == ["python", "-u", "-c"]
    assert made["resources"] == {"limits": {"cpu": 4}}
    assert made["volumeMounts"] == container["volumeMounts"]
    assert {"args", "livenessProbe"}.isdisjoint(made)
    assert (spec["restartPolicy"], spec["volumes"]) == ("Always", pod["volumes"])
    assert "activeDeadlineSeconds" not in spec
    assert variables({"spec": spec}).keys() == {"BUCKET", "TF_DATA_SERVICE", "TF_DATA_SERVICE_ADDRESS"}


def test_a_template_of_its_own_keeps_its_command_and_gets_port_and_journal() -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "data:1", "command": ["serve"]}]}}
    service = {"workers": 1, "template": template, "port": 6000, "workDir": "/journal/"}
    plan = planned(job_with_service(dataService=service), members=())
    dispatcher, worker = (body_of(plan, f"mnist-{name}-0") for name in ("dispatcher", "dataworker"))
    assert dispatcher["spec"]["containers"][0]["command"] == ["serve"]
    assert dispatcher["spec"]["containers"][0]["ports"] == [{"name": "data-service", "containerPort": 6000}]
    assert variables(dispatcher)["TF_DATA_SERVICE"] == "grpc://mnist-dispatcher-0.ns.svc:6000"
    # A later job of the name has a journal of its own.
    assert variables(dispatcher)["TF_DATA_SERVICE_WORK_DIR"] == "/journal/job-uid"
    assert "TF_DATA_SERVICE_WORK_DIR" not in variables(worker)


def test_a_healthy_job_is_left_alone_and_its_status_shows_the_data_service() -> None:
    job = settled(job_with_service(), *running())
    plan = planned(job, *running())
    assert not plan.acts
    assert status_of(plan) == DataServiceStatus(
        address=ADDRESS, ready="3/3", dispatcher_started=True, started_indexes="0-1"
    )
    assert plan.is_true(ConditionType.DATA_SERVICE_READY)
    assert plan.status.ready == "1/1"


def test_a_job_without_a_data_service_has_no_trace_of_it() -> None:
    plan = planned(started(make_job({"Worker": 1})), make_pod("Worker-0"), members=())
    assert plan.status.data_service is None
    assert not plan.has_condition(ConditionType.DATA_SERVICE_READY)


def test_a_pod_that_was_taken_is_counted_once_and_made_again() -> None:
    job = settled(job_with_service(), *running())
    left = [pod for pod in running() if not pod.metadata.name.endswith("dataworker-1")]
    plan = planned(job, *left)
    assert created(plan) == ["mnist-dataworker-1"]
    assert body_of(plan, "mnist-dataworker-1")["metadata"]["annotations"] == {ANNOTATION_RESTARTS: "1"}
    assert plan.absent == ("mnist-dataworker-1",)
    assert status_of(plan).restart_counts == {"dataworker-1": 1}
    assert "DataServiceRestarted" in plan.reasons
    # The status was written, and the creation failed: the next plan does not count it again.
    again = planned(with_status(job, plan.status), *left)
    assert created(again) == ["mnist-dataworker-1"]
    assert status_of(again).restart_counts == {"dataworker-1": 1}
    assert "DataServiceRestarted" not in again.reasons
    # And the pod that is there carries the number, if the status was lost.
    there = planned(job, *left, member_pod(SECOND, restarts_before=1))
    assert status_of(there).restart_counts == {"dataworker-1": 1}


def test_a_pod_that_no_cache_shows_yet_is_not_made_twice() -> None:
    plan = planned(job_with_service(), make_pod("Worker-0"), unseen=Unseen(awaited=frozenset({("", "pods")})))
    assert created(plan) == []


def test_a_pod_that_failed_as_a_whole_is_replaced_after_its_delay() -> None:
    job = settled(job_with_service(), *running())
    lost = member_pod(FIRST, "Failed", reason="Evicted", created=NOW, start=NOW)
    others = [pod for pod in running() if not pod.metadata.name.endswith("dataworker-0")]
    options = msgspec.structs.replace(OPTIONS, restart_delay_base=10.0)
    early = planned(job, lost, *others, options=options)
    assert (created(early), deleted(early)) == ([], [])
    assert early.requeue_after == pytest.approx(10.0)
    assert status_of(early).restart_counts == {"dataworker-0": 1}
    late = planned(with_status(job, early.status), lost, *others, now=NOW + timedelta(seconds=10), options=options)
    assert (created(late), deleted(late)) == (["mnist-dataworker-0"], ["mnist-dataworker-0"])
    assert early.write_status
    assert status_of(late).restart_counts == {"dataworker-0": 1}


def test_restarts_by_the_kubelet_count_and_its_reason_is_shown() -> None:
    job = settled(job_with_service(), *running())
    crashing = member_pod(FIRST, containers=(waiting("CrashLoopBackOff", "back-off", restarts=3),))
    others = [pod for pod in running() if not pod.metadata.name.endswith("dataworker-0")]
    plan = planned(job, crashing, *others)
    assert not plan.changes_objects
    assert (status_of(plan).ready, status_of(plan).restarts) == ("2/3", 3)
    assert status_of(plan).message.startswith("dataworker-0: ")
    condition = plan.condition(ConditionType.DATA_SERVICE_READY)
    assert condition.status == "False"
    assert condition.message.startswith("2 of the 3 pods of the data service are ready: dataworker-0: ")
    assert plan.is_true(ConditionType.RUNNING)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded", "Unknown"])
@pytest.mark.parametrize("member", ALL)
def test_no_end_of_a_member_ends_the_job(member: DataServiceMember, phase: str) -> None:
    job = settled(job_with_service(), *running())
    others = [pod for pod in running() if pod.metadata.name != f"mnist-{member_suffix(member)}"]
    plan = planned(job, member_pod(member, phase, exit_code=1), *others)
    assert not plan.has_condition(ConditionType.FAILED)
    assert plan.status.restarts == 0
    assert status_of(plan).restarts == 1


def test_fewer_and_more_data_workers_are_deleted_and_made_alone() -> None:
    job = settled(job_with_service(), *running())
    fewer = planned(with_status(job_with_service(1), job.status), *running())
    assert deleted(fewer) == ["mnist-dataworker-1"]
    assert [action.name for action in fewer.deletions("services")] == ["mnist-dataworker-1"]
    assert created(fewer) == []
    more = planned(with_status(job_with_service(4), job.status), *running())
    assert created(more) == ["mnist-dataworker-2", "mnist-dataworker-3"]
    assert deleted(more) == []


def test_a_data_service_that_is_not_wanted_any_more_goes() -> None:
    job = settled(job_with_service(), *running())
    plan = planned(with_status(make_job({"Worker": 1}), job.status), *running())
    assert sorted(deleted(plan)) == ["mnist-dataworker-0", "mnist-dataworker-1", "mnist-dispatcher-0"]
    assert len(plan.deletions("services")) == 3
    assert plan.status.data_service is None
    assert not plan.has_condition(ConditionType.DATA_SERVICE_READY)


@pytest.mark.parametrize("policy", [None, "None"])
def test_the_data_service_is_stopped_with_the_job_and_its_logs_stay(policy: str | None) -> None:
    spec = {} if policy is None else {"runPolicy": {"cleanPodPolicy": policy}}
    job = settled(job_with_service(**spec), *running())
    plan = planned(job, make_pod("Worker-0", "Succeeded", exit_code=0), *running()[1:])
    assert plan.is_true(ConditionType.SUCCEEDED)
    assert sorted(stop.name for stop in plan.stops) == [
        "mnist-dataworker-0",
        "mnist-dataworker-1",
        "mnist-dispatcher-0",
    ]
    assert deleted(plan) == []
    assert plan.condition(ConditionType.DATA_SERVICE_READY).status == "False"
    assert status_of(plan) == DataServiceStatus(address=ADDRESS)


def test_workers_that_may_finish_keep_their_data_service() -> None:
    pods = [make_pod("Worker-0"), make_pod("Worker-1"), *running()[1:]]
    job = settled(job_with_service(replicas=2), *pods)
    done = make_pod("Worker-0", "Succeeded", exit_code=0)
    plan = planned(job, done, *pods[1:])
    assert plan.is_true(ConditionType.SUCCEEDED)
    assert plan.stops == []
    ended = with_status(job, plan.status)
    last = planned(ended, done, make_pod("Worker-1", "Succeeded", exit_code=0), *pods[2:])
    assert len(last.stops) == 3


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_clean_up_by_a_policy_deletes_pods_and_services(policy: str) -> None:
    job = settled(job_with_service(runPolicy={"cleanPodPolicy": policy}), *running())
    plan = planned(job, make_pod("Worker-0", "Succeeded", exit_code=0), *running()[1:])
    assert {"mnist-dispatcher-0", "mnist-dataworker-0", "mnist-dataworker-1"} <= set(deleted(plan))
    assert {"mnist-dispatcher-0", "mnist-dataworker-0"} <= {action.name for action in plan.deletions("services")}


def test_a_suspended_job_keeps_nothing_but_the_counts() -> None:
    job = settled(job_with_service(), *running(in_place=2))
    suspended = with_status(job_with_service(runPolicy={"suspend": True}), job.status)
    plan = planned(suspended, *running(in_place=2))
    assert len(deleted(plan)) == 4
    assert status_of(plan).restarts == 6
    assert status_of(plan).started_indexes == ""


def test_a_replica_failure_ends_the_job_with_its_data_service() -> None:
    job = settled(job_with_service(), *running())
    plan = planned(job, make_pod("Worker-0", "Failed", exit_code=1), *running()[1:])
    assert plan.is_true(ConditionType.FAILED)
    assert len(plan.stops) == 3


def test_services_come_before_pods_of_the_same_name() -> None:
    plan = planned(job_with_service(), members=())
    phase = next(phase for phase in plan.phases if phase.name is PhaseName.REPLICAS)
    chains = [[action.kind for action in chain] for chain in phase.chains if chain[0].name == "mnist-dispatcher-0"]
    assert chains == [["services", "pods"]]


def test_a_job_of_parameter_servers_alone_needs_a_template() -> None:
    job = make_job({"PS": {"replicas": 1, "template": None}}, dataService={"workers": 1})
    plan = plan_for(Observed(job), options=msgspec.structs.replace(OPTIONS, default_ps_image="tf"))
    assert plan.is_true(ConditionType.FAILED)
    assert "spec.dataService.template" in plan.condition(ConditionType.FAILED).message


def with_cpu(cpu: str) -> dict[str, Any]:
    container = {**TEMPLATE["spec"]["containers"][0], "resources": {"requests": {"cpu": cpu}}}
    return {"replicas": 2, "template": {"spec": {"containers": [container]}}}


def test_a_gang_has_the_data_service_among_its_members() -> None:
    options = plan_options(gang=gang_scheduler("mine"))
    plan = plan_for(Observed(job_with_service(replicas=with_cpu("2"))), options=options)
    group = next(action for action in plan.actions if isinstance(action, Create) and action.kind == "podgroups")
    assert (group.body["spec"]["minMember"], group.body["spec"]["minResources"]) == (5, {"cpu": "10"})
    body = body_of(plan, "mnist-dataworker-0")
    assert body["spec"]["schedulerName"] == "mine"
    assert body["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "mnist"


def test_a_gang_with_a_size_of_its_own_has_this_size() -> None:
    job = job_with_service(replicas=with_cpu("2"), runPolicy={"schedulingPolicy": {"minAvailable": 2}})
    plan = plan_for(Observed(job), options=plan_options(gang=gang_scheduler("mine")))
    group = next(action for action in plan.actions if isinstance(action, Create) and action.kind == "podgroups")
    assert group.body["spec"]["minMember"] == 2


@pytest.mark.parametrize(
    ("quota", "names"), [(2, []), (3, ["mnist-dispatcher-0", "mnist-dataworker-0", "mnist-dataworker-1"])]
)
def test_in_a_queue_members_are_made_only_with_quota_for_all(quota: int, names: list[str]) -> None:
    gate = QueueGate("Admitted", "queue", admitted=True, quota={"worker": 1, "data-service": quota})
    plan = planned(job_with_service(), members=(), gate=gate)
    assert [name for name in created(plan) if "worker-0" not in name or "data" in name] == names


def test_unique_names_have_a_part_of_the_uid_and_must_fit() -> None:
    options = msgspec.structs.replace(OPTIONS, naming=UNIQUE_NAMES)
    plan = plan_for(Observed(job_with_service()), options=options)
    assert "mnist-dataworker-1-job-uid" in created(plan)
    worker = variables(body_of(plan, "mnist-dataworker-1-job-uid"))
    assert worker["TF_DATA_SERVICE"] == "grpc://mnist-dispatcher-0-job-uid.ns.svc:5050"
    long = make_job({"Worker": 1}, dataService={"workers": 100}, name="m" * 48)
    failed = plan_for(Observed(long), options=options)
    assert "metadata.name: is too long" in failed.condition(ConditionType.FAILED).message


def test_duplicates_of_a_member_go_and_the_pod_that_runs_stays() -> None:
    job = settled(job_with_service(), *running())
    other = member_pod(FIRST, "Failed", exit_code=1, uid="other")
    plan = planned(job, other, *running())
    assert [action.uid for action in plan.deletions("pods")] == ["other"]
    assert created(plan) == []


def test_an_edit_of_what_its_pods_are_made_from_is_reported() -> None:
    job = settled(job_with_service(), *running())
    plan = planned(job, *running(), edited_templates=("spec.dataService",))
    assert [event.message for event in plan.events if event.reason == "TemplateChanged"] == [
        "The pod template of the data service has changed. Existing pods keep the old template until they are "
        "restarted; to replace all pods, suspend the job and resume it."
    ]


def decides(job: TFJob, *pods: Pod) -> list[str]:
    """The pods that a new leader looks up before it writes the status of its plan: an hour old lists may show them."""
    observed = Observed(job, pods, (*services_of(job), *map(member_service, ALL)))
    return [pod.name for pod in deciding_pods(observed, plan_for(observed).status, NOW)]


def test_a_lagging_cache_neither_begins_nor_counts_a_restart_of_a_member_by_itself() -> None:
    job = started(job_with_service())
    ran = with_status(job, planned(job, *running()).status)
    assert decides(ran, *running()) == [], "nothing new follows from these pods"
    failed = member_pod(FIRST, "Failed", exit_code=1)
    others = [pod for pod in running() if pod.metadata.name != failed.metadata.name]
    assert decides(ran, *others, failed) == [failed.metadata.name], "a restart is counted by it"
    counted = with_status(ran, planned(ran, *others, failed).status)
    assert counted.status.data_service is not None
    assert counted.status.data_service.restart_counts == {"dataworker-0": 1}
    assert decides(counted, *others, failed) == []
    # The failed pod was deleted, and the list of a new leader still shows it as it ran before: it would begin again.
    assert decides(counted, *running()) == [failed.metadata.name]
    dispatcher = with_status(job, planned(job, *running()[:1]).status)
    assert decides(dispatcher, *running()[:2]) == ["mnist-dispatcher-0"]
