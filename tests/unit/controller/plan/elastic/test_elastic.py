"""The number of workers of an elastic job: the rules over numbers, and the plans that follow."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    NOW,
    TEMPLATE,
    ReadablePlan,
    after,
    make_job,
    make_pod,
    plan_for,
    planned,
    services_of,
    with_status,
)
from tfoperator.api.replicas.data_service import DISPATCHER, member_labels
from tfoperator.api.replicas.names import ANNOTATION_PROBE, ANNOTATION_WORKERS, job_labels
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.elastic import ElasticPolicy, ElasticStatus, Resize
from tfoperator.api.v1.parts.progress import Metric, TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.api.waiting import Reason, ReasonKind
from tfoperator.controller.plan.facts.elastic_size import Allowed, Room, Size, decide
from tfoperator.controller.plan.values.observed import Observed, QueueGate, Unseen
from tfoperator.controller.pods.gang import gang_scheduler
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import PodCondition

POLICY = ElasticPolicy(min_replicas=2, max_replicas=8, shrink_after_seconds=60, grow_after_seconds=600)
FULL = Room(is_placed=True, is_complete=True)
NO_CPU = PodCondition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")


def record(workers: int, wanted: int = 6, since: float = 0, lacking: float | None = None) -> ElasticStatus:
    return ElasticStatus(workers, wanted, after(since), "a test", None if lacking is None else after(lacking), 1)


def decided(
    recorded: ElasticStatus | None,
    wanted: int,
    room: Room | None,
    at: float,
    *,
    limit: int = 99,
    admitted: int | None = None,
) -> Size:
    allowed = Allowed(wanted, wanted if admitted is None else admitted, limit)
    return decide(POLICY, recorded, allowed, room, after(at))


def test_a_new_job_begins_with_the_wanted_number() -> None:
    size = decided(None, 6, Room(), 0)
    assert (size.workers, size.is_new, size.record.workers, size.record.changes) == (6, True, 6, 0)


@pytest.mark.parametrize(
    ("lacking", "since", "at", "workers"),
    [(1, 0, 59, 6), (1, 0, 60, 5), (3, 0, 60, 3), (5, 0, 60, 2), (6, 0, 60, 2), (1, None, 1000, 6)],
)
def test_workers_without_room_are_left_out_after_a_minute_down_to_the_least(
    lacking: int, since: float | None, at: float, workers: int
) -> None:
    size = decided(record(6, lacking=since), 6, Room(lacking=lacking, why="no cpu"), at)
    assert size.workers == workers
    if workers < 6:
        assert size.record.lacking_since is None, "the time begins anew with the new number"
        assert size.record.since == after(at)
        assert "no cpu" in size.change
        assert f"from 6 to {workers} workers" in size.change
    else:
        assert size.record.lacking_since is not None


def test_with_the_least_number_a_job_waits_without_looking_again() -> None:
    size = decided(record(2, lacking=0), 6, Room(lacking=1), 5000)
    assert (size.workers, size.look_again, size.record.lacking_since) == (2, None, after(0))


def test_room_that_is_found_ends_the_wait_and_room_that_is_unknown_does_not() -> None:
    assert decided(record(6, lacking=0), 6, Room(is_placed=True), 30).record.lacking_since is None
    assert decided(record(6, lacking=0), 6, Room(), 30).record.lacking_since == after(0)
    assert decided(record(6, lacking=0), 6, None, 30).record.lacking_since == after(0)


@pytest.mark.parametrize(
    ("room", "at", "expected"),
    [
        (FULL, 599, (3, 0)),
        (FULL, 600, (3, 3)),
        (Room(is_placed=True), 600, (3, 0)),
        (replace(FULL, found=1), 600, (3, 3)),
        (replace(FULL, found=1, is_answered=True), 600, (4, 0)),
        (replace(FULL, found=3, is_answered=True), 600, (6, 0)),
        (None, 600, (3, 0)),
    ],
    ids=["too early", "asks", "not all run", "answers are awaited", "room for one", "room for all", "on the way"],
)
def test_a_job_asks_for_room_and_grows_by_what_it_finds(
    room: Room | None, at: float, expected: tuple[int, int]
) -> None:
    size = decided(record(3), 6, room, at)
    assert (size.workers, size.probes) == expected


def test_a_user_who_scales_does_not_wait() -> None:
    assert decided(record(3, wanted=6), 2, FULL, 10).workers == 2
    assert decided(record(3, wanted=3), 5, FULL, 10).probes == 2, "asked for now, and not after growAfterSeconds"
    lowered = decided(record(3, wanted=6), 4, FULL, 10)
    assert (lowered.workers, lowered.record.wanted, lowered.probes) == (3, 4, 0)
    assert decided(lowered.record, 6, FULL, 20).probes == 3, "who raises it again asks for more"


def test_no_more_room_is_asked_for_than_there_is_quota() -> None:
    assert decided(record(3), 6, FULL, 700, limit=3).probes == 0
    assert decided(record(3), 6, FULL, 700, limit=4).probes == 1
    grown = decided(record(3), 6, replace(FULL, found=3, is_answered=True), 700, limit=4)
    assert grown.workers == 4, "a probe from before may be one too many"


def test_a_job_of_which_kueue_admits_a_part_begins_with_that_part_and_records_the_number_in_its_spec() -> None:
    size = decided(None, 6, Room(), 0, admitted=3)
    assert (size.workers, size.changes, size.record) == (3, False, ElasticStatus(3, 6, after(0)))
    assert size.record.text() == "3 of 6 wanted (0 changes)"
    full = decided(size.record, 6, FULL, 700, admitted=3)
    assert (full.workers, full.probes, full.look_again) == (3, 0, None), "it needs more quota first"
    assert decided(size.record, 6, FULL, 700, admitted=6).probes == 3
    assert decided(size.record, 6, FULL, 10, admitted=6).look_again == 590, "it waits for growAfterSeconds"


def test_a_least_number_above_the_admitted_number_takes_no_quota_that_the_job_has_not() -> None:
    assert decided(record(1), 6, FULL, 1, admitted=1).workers == 1


def test_a_job_that_was_admitted_again_while_no_operator_ran_continues_with_the_admitted_number() -> None:
    size = decided(record(5), 6, FULL, 10, admitted=3)
    assert (size.workers, size.record.wanted) == (3, 6)
    assert size.change == "from 5 to 3 workers, because Kueue admitted 3 of the 6 requested workers"


def test_a_least_number_that_was_raised_holds_at_once() -> None:
    assert decided(record(1), 6, FULL, 1).workers == 2


def test_a_least_number_above_the_wanted_number_makes_no_job_go_to_and_fro() -> None:
    assert decided(record(1, wanted=1), 1, FULL, 1).workers == 1, "such a job is refused, and may be older than that"


def test_times_that_lie_ahead_do_not_delay_for_ever() -> None:
    wrong = record(3, since=10**6, lacking=10**6)
    assert decided(wrong, 6, FULL, 0).look_again == 600
    assert decided(wrong, 6, Room(lacking=1), 0).look_again == 60


# Plans.


def elastic_job(workers: int = 3, **spec: Any) -> TFJob:
    policy = {"minReplicas": 1, "maxReplicas": 8, "shrinkAfterSeconds": 60, "growAfterSeconds": 600}
    return make_job({"Worker": workers}, elasticPolicy=policy, **spec)


def running(index: int, workers: int, **more: Any) -> Pod:
    return _made_for(make_pod(f"Worker-{index}", node=f"n{index}", **more), workers)


def pending(index: int, workers: int, *, probe: bool = False, **more: Any) -> Pod:
    pod = _made_for(make_pod(f"Worker-{index}", "Pending", **more), workers)
    if not probe:
        return pod
    annotations = {**pod.metadata.annotations, ANNOTATION_PROBE: "true"}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def _made_for(pod: Pod, workers: int) -> Pod:
    annotations = {**pod.metadata.annotations, ANNOTATION_WORKERS: str(workers)}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def at_work(job: TFJob, workers: int, **more: Any) -> TFJob:
    """The job after its first plans, with this number of workers."""
    status = planned(job).status
    elastic = ElasticStatus(workers, 3, NOW, "a test", **more)
    return with_status(job, replace(status, elastic=elastic))


def test_the_number_is_recorded_before_the_first_pod_and_each_pod_has_it() -> None:
    made = planned(elastic_job())
    assert made.write_status_first
    assert made.status.elastic == ElasticStatus(3, 3, NOW)
    assert {creation.body["metadata"]["annotations"][ANNOTATION_WORKERS] for creation in made.creations("pods")} == {
        "3"
    }


@pytest.mark.parametrize(
    ("spec", "saved", "changes", "warns"),
    [
        ({}, False, 0, True),
        ({}, False, 1, False),
        ({}, True, 0, False),
        ({"checkpoint": {"volume": {"emptyDir": {}}, "mountPath": "/c"}}, False, 0, False),
    ],
    ids=["nothing is known", "it was warned of", "the program reports a checkpoint", "it has a place for checkpoints"],
)
def test_a_program_of_which_no_checkpoint_is_known_is_warned_of_at_the_first_change(
    spec: dict[str, Any], saved: bool, changes: int, warns: bool
) -> None:
    job = at_work(elastic_job(**spec), 3, lacking_since=NOW, changes=changes)
    progress = TrainingProgress(metrics=(Metric("saved_step", "40"),), last_updated_time=NOW) if saved else None
    pods = (running(0, 3), running(1, 3), pending(2, 3, conditions=(NO_CPU,)))
    made = plan_for(Observed(job, pods, services_of(job), progress=progress), after(60))
    assert made.reasons.count("TFJobResized") == 1
    assert ("NoCheckpoint" in made.reasons) is warns


def test_a_job_that_becomes_smaller_restarts_all_replicas_and_counts_no_failure() -> None:
    job = at_work(elastic_job(runPolicy={"backoffLimit": 0}), 3, lacking_since=NOW)
    pods = [running(0, 3), running(1, 3), pending(2, 3, conditions=(NO_CPU,))]
    made = planned(job, *pods, now=after(60))
    assert made.write_status_first
    assert sorted(made.deleted_pods) == ["Worker-0", "Worker-1", "Worker-2"]
    assert not made.created_pods, "all old pods are gone before the first new pod"
    status = made.status
    assert (status.elastic.workers, status.job_restarts, status.job_disruptions, status.disruptions) == (2, 1, 1, 1)
    assert not made.is_true(ConditionType.FAILED), "backoffLimit 0 counts failures"
    restarting = made.condition(ConditionType.RESTARTING)
    assert restarting.reason == "TFJobResized"
    assert (
        "from 3 to 2 workers, because 1 replica has had no node for 60 seconds (Insufficient cpu)" in restarting.message
    )
    (event,) = [candidate for candidate in made.events if candidate.reason == "TFJobResized"]
    assert (event.type, event.message) == ("Normal", restarting.message)
    assert "TFJobRestarting" not in made.reasons
    later = planned(with_status(job, status), now=after(70))
    assert later.created_pods == ["Worker-0", "Worker-1"]
    config = [json.loads(_env(creation.body)["TF_CONFIG"]) for creation in later.creations("pods")]
    assert [len(tf_config["cluster"]["worker"]) for tf_config in config] == [2, 2]
    assert {_env(creation.body)["KERAS_DISTRIBUTION_NUM_PROCESSES"] for creation in later.creations("pods")} == {"2"}


def _env(body: dict[str, Any]) -> dict[str, str]:
    body = json.loads(msgspec.json.encode(body))
    return {variable["name"]: variable.get("value", "") for variable in body["spec"]["containers"][0]["env"]}


def test_a_job_of_one_worker_has_no_cluster_and_grows_again_by_a_probe_whose_program_does_not_start() -> None:
    job = at_work(elastic_job(2), 1)
    early = planned(job, running(0, 1), services=services_of(job)[:1], now=after(599))
    assert (early.created_pods, early.requeue_after) == ([], 1.0)
    result = planned(job, running(0, 1), services=services_of(job)[:1], now=after(600))
    (probe,) = [action for action in result.actions if not action.required]
    assert probe.replica == (ReplicaType.WORKER, 1)
    spec = json.loads(msgspec.json.encode(probe.body))["spec"]
    volume = next(candidate for candidate in spec["volumes"] if "configMap" in candidate)
    assert volume["name"] in {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    assert not result.deleted_pods
    waits = planned(job, running(0, 1), pending(1, 2, probe=True, conditions=(NO_CPU,)), now=after(700))
    assert (waits.deleted_pods, [action for action in waits.actions if not action.required]) == ([], [])
    assert (
        "the job has 1 of the 2 requested workers, and the operator looks for nodes for 1 more"
        in waits.condition("Running").message
    )
    resized = planned(job, running(0, 1), pending(1, 2, probe=True, node="n1"), now=after(700))
    assert sorted(resized.deleted_pods) == ["Worker-0", "Worker-1"], "the probe, too: its program is not to run"
    assert (resized.status.elastic.workers, resized.status.restarts, resized.status.disruptions) == (2, 1, 1)
    assert "from 1 to 2 workers, because there are nodes for 1 more" in resized.condition("Restarting").message


def test_a_probe_that_its_kubelet_refused_makes_room_for_another() -> None:
    job = at_work(elastic_job(2), 1)
    probe = pending(1, 2, probe=True)
    failed = replace(probe, status=replace(probe.status, phase="Failed", reason="OutOfcpu"))
    assert planned(job, running(0, 1), failed, now=after(700)).deleted_pods == ["Worker-1"]


@pytest.mark.parametrize("end", ["suspended", "succeeded", "not elastic"])
def test_a_probe_goes_with_the_job(end: str) -> None:
    job = at_work(elastic_job(2), 1)
    worker, probe = running(0, 1), pending(1, 2, probe=True, conditions=(NO_CPU,))
    if end == "suspended":
        job = replace(job, spec=replace(job.spec, run_policy=replace(job.spec.run_policy, suspend=True)))
    elif end == "succeeded":
        worker = running(0, 1, phase="Succeeded", exit_code=0)
    else:
        job = replace(job, spec=replace(job.spec, elastic_policy=None))
    made = planned(job, worker, probe, now=after(700))
    assert "Worker-1" in made.deleted_pods
    if end == "suspended":
        assert made.status.elastic.workers == 0, "it is resumed with the wanted number"
    if end == "not elastic":
        assert made.status.elastic is None


def test_a_probe_of_a_job_that_is_elastic_no_more_is_no_pod_of_a_replica() -> None:
    job = at_work(elastic_job(2), 2)
    job = replace(job, spec=replace(job.spec, elastic_policy=None))
    worker, probe = running(0, 2), pending(1, 2, probe=True, conditions=(NO_CPU,))
    made = planned(job, worker, probe, now=after(700))
    assert made.deleted_pods == ["Worker-1"]
    assert made.status.replica_statuses["Worker"].started_indexes == "0"
    job = with_status(job, made.status)
    leaving = replace(probe, metadata=replace(probe.metadata, deletion_timestamp=after(701)))
    for pods in ((worker, leaving), (worker,)):
        made = planned(job, *pods, now=after(702))
        assert (made.status.restarts, made.status.disruptions, made.status.disruption_backoff) == (0, 0, None)
        job = with_status(job, made.status)
    assert made.created_pods == ["Worker-1"], "its own pod is made when the probe is gone"


@pytest.mark.parametrize("policy", ["None", None])
def test_a_probe_whose_deletion_failed_at_the_end_of_its_job_is_deleted_later(policy: str | None) -> None:
    job = at_work(elastic_job(2, runPolicy={"cleanPodPolicy": policy}), 1)
    worker, probe = running(0, 1, phase="Succeeded", exit_code=0), pending(1, 2, probe=True, node="n1")
    ended = with_status(job, planned(job, worker, probe, now=after(700)).status)
    assert planned(ended, worker, probe, now=after(701)).deleted_pods == ["Worker-1"]
    assert not planned(ended, worker, now=after(702)).acts


def test_a_probe_whose_deletion_failed_when_its_job_was_elastic_no_more_is_deleted_later() -> None:
    job = at_work(elastic_job(2), 2)
    job = replace(job, spec=replace(job.spec, elastic_policy=None))
    worker, probe = running(0, 2), pending(1, 2, probe=True, conditions=(NO_CPU,))
    status = planned(job, worker, probe, now=after(700)).status
    assert status.elastic is None
    assert planned(with_status(job, status), worker, probe, now=after(701)).deleted_pods == ["Worker-1"]


def test_a_suspended_job_is_as_its_spec_has_it_and_is_resumed_so() -> None:
    job = at_work(elastic_job(3), 1)
    suspended = replace(job, spec=replace(job.spec, run_policy=replace(job.spec.run_policy, suspend=True)))
    held = planned(suspended, running(0, 1)).status
    assert (held.ready, held.elastic.workers) == ("0/3", 0)
    waits = planned(with_status(job, held), running(0, 1))
    assert (waits.status.ready, waits.created_pods) == ("0/3", []), "its old pod is still there"
    resumed = planned(with_status(job, held))
    assert (resumed.status.elastic.workers, len(resumed.created_pods)) == (3, 3)


def test_a_loss_and_a_failure_leave_the_number_as_it_is() -> None:
    job = at_work(elastic_job(runPolicy={"backoffLimit": 3}), 2)
    ran = with_status(job, planned(job, running(0, 2), running(1, 2)).status)
    lost = planned(ran, running(0, 2), running(1, 2, deleted=after(4999)), now=after(5000))
    assert (lost.status.elastic.workers, lost.status.job_restarts) == (2, 1)
    assert lost.condition(ConditionType.RESTARTING).reason == "TFJobRestarting"


@pytest.mark.parametrize(("trained", "restarts", "fails"), [(False, 1, True), (True, 1, False), (False, 2, False)])
def test_a_job_that_became_smaller_before_it_trained_has_a_deadline_for_its_start(
    trained: bool, restarts: int, fails: bool
) -> None:
    job = elastic_job(runPolicy={"startDeadlineSeconds": 300})
    job = with_status(job, planned(job).status)
    for seconds in (1, 61):
        pods = [pending(index, 3, conditions=(NO_CPU,)) for index in range(3)]
        job = with_status(job, planned(job, *pods, now=after(seconds)).status)
    assert (job.status.elastic.workers, job.status.job_restarts) == (1, 1)
    usage = replace(job.status.usage, seconds={"training": 5} if trained else {})
    job = with_status(job, replace(job.status, usage=usage, job_restarts=restarts, job_disruptions=restarts))
    pod = pending(0, 1, job_restarts=restarts, created=after(62), start=None, conditions=(NO_CPU,))
    early = planned(job, pod, now=after(360))
    assert not early.is_true(ConditionType.FAILED)
    assert early.requeue_after == (1 if fails else None)
    late = planned(job, pod, now=after(361))
    assert late.is_true(ConditionType.FAILED) is fails
    if fails:
        assert late.condition(ConditionType.FAILED).reason == "StartDeadlineExceeded"


def test_scaling_restarts_all_so_that_each_replica_has_the_new_number() -> None:
    job = at_work(elastic_job(), 3)
    made = planned(scaled(job, 2), *(running(index, 3) for index in range(3)))
    assert sorted(made.deleted_pods) == ["Worker-0", "Worker-1", "Worker-2"]
    assert "because the number of workers was set to 2" in made.condition(ConditionType.RESTARTING).message


def scaled(job: TFJob, workers: int) -> TFJob:
    specs = {kind: replace(spec, replicas=workers) for kind, spec in job.spec.tf_replica_specs.items() if spec}
    return replace(job, spec=replace(job.spec, tf_replica_specs=specs))


def test_pods_that_no_cache_showed_when_the_job_was_scaled_restart_with_the_new_number() -> None:
    job = elastic_job(4)
    job = scaled(with_status(job, planned(job).status), 3)
    unseen = Unseen(frozenset({("worker", "pods")}))
    made = plan_for(Observed(job, (), services_of(job), unseen=unseen), after(1))
    assert (made.created_pods, made.status.elastic.workers) == ([], 3)
    pods = tuple(running(index, 4) for index in range(4))
    made = plan_for(Observed(with_status(job, made.status), pods, services_of(job)), after(2))
    assert sorted(made.deleted_pods) == [f"Worker-{index}" for index in range(4)]
    assert (made.status.elastic.workers, made.status.job_restarts) == (3, 1)


def test_a_lost_status_is_found_in_the_pods_of_replicas_and_not_in_the_pods_of_the_data_service() -> None:
    job = elastic_job(4, dataService={"workers": 1, "template": TEMPLATE})
    dispatcher = make_pod("Worker-0", name="mnist-dispatcher", labels=job_labels("mnist") | member_labels(DISPATCHER))
    made = planned(job, dispatcher, running(0, 3), running(1, 3), running(2, 3))
    assert (made.status.elastic.workers, made.status.elastic.wanted) == (3, 3)
    assert "mnist-worker-3" not in {creation.name for creation in made.creations("pods")}


def test_a_new_leader_whose_status_is_older_than_the_pods_takes_their_number() -> None:
    job = at_work(elastic_job(), 3)
    made = planned(job, running(0, 2, job_restarts=1), running(1, 2, job_restarts=1))
    assert (made.created_pods, made.deleted_pods, made.status.elastic.workers) == ([], [], 2)


def not_elastic(workers: int, **spec: Any) -> TFJob:
    """A job at work that was never elastic, with running pods for all its workers."""
    job = make_job({"Worker": workers}, **spec)
    job = with_status(job, planned(job).status)
    return with_status(job, planned(job, *own_pods(workers)).status)


def own_pods(workers: int, **more: Any) -> list[Pod]:
    """The running pods of a job that is not elastic."""
    return [make_pod(f"Worker-{index}", node=f"n{index}", **more) for index in range(workers)]


def test_a_job_that_becomes_elastic_and_smaller_in_one_edit_restarts_with_the_new_number() -> None:
    job = replace(elastic_job(2), status=not_elastic(4).status)
    made = planned(job, *own_pods(4), now=after(10))
    assert sorted(made.deleted_pods) == [f"Worker-{index}" for index in range(4)]
    assert (made.status.elastic.workers, made.status.job_restarts, made.status.job_disruptions) == (2, 1, 1)
    assert "from 4 to 2 workers, because the number of workers was set to 2" in made.condition("Restarting").message


@pytest.mark.parametrize("seen", [3, 2], ids=["all pods", "the last pod is gone"])
def test_a_job_that_becomes_elastic_and_larger_in_one_edit_grows_by_probes(seen: int) -> None:
    job = replace(elastic_job(4), status=not_elastic(3).status)
    made = planned(job, *own_pods(seen), now=after(10))
    assert made.status.elastic.workers == 3
    probes = [action.replica for action in made.actions if not action.required]
    assert (probes, made.created_pods) == ([(ReplicaType.WORKER, 3)] if seen == 3 else [], []), "no worker joins them"


def test_a_job_that_becomes_elastic_with_its_number_of_workers_goes_on() -> None:
    job = replace(elastic_job(3), status=not_elastic(3).status)
    made = planned(job, *own_pods(3), now=after(10))
    assert (made.deleted_pods, made.created_pods, made.status.job_restarts) == ([], [], 0)
    assert (made.status.elastic.workers, made.status.elastic.wanted, made.status.elastic.changes) == (3, 3, 0)


@pytest.mark.parametrize("scope", [None, "Job"])
@pytest.mark.parametrize("lost", [False, True], ids=["all run", "a worker is lost"])
def test_a_smaller_job_that_is_elastic_no_more_restarts_with_the_number_in_its_spec(
    scope: str | None, *, lost: bool
) -> None:
    job = at_work(elastic_job(4), 2)
    pods = [running(index, 2) for index in range(2)]
    job = with_status(job, planned(job, *pods).status)
    job = replace(make_job({"Worker": 4}, runPolicy={"restartScope": scope, "backoffLimit": 0}), status=job.status)
    if lost:
        pods[1] = running(1, 2, phase="Failed", exit_code=137, deleted=after(8))
    probe = pending(2, 4, probe=True, conditions=(NO_CPU,))
    made = planned(job, *pods, probe, now=after(10))
    assert made.write_status_first
    assert sorted({*made.deleted_pods, "Worker-1"}) == ["Worker-0", "Worker-1", "Worker-2"]
    assert len(made.deleted_pods) == len(set(made.deleted_pods))
    assert made.created_pods == []
    assert (made.status.elastic, made.status.job_restarts, made.status.job_disruptions) == (None, 1, 1)
    assert made.status.restarts == 1
    assert not made.is_true(ConditionType.FAILED)
    if scope is None or not lost:
        message = "job mnist goes from 2 to 4 workers, because elasticPolicy was removed: all its replicas restart."
        assert made.condition(ConditionType.RESTARTING).message.startswith(message)
        assert made.reasons.count("TFJobResized") == 1
    job = with_status(job, made.status)
    waits = planned(job, running(0, 2, deleted=after(40)), now=after(11))
    assert (waits.created_pods, waits.status.job_restarts) == ([], 1), "its old pod is still there"
    later = planned(job, now=after(12))
    assert later.created_pods == [f"Worker-{index}" for index in range(4)]
    assert {len(json.loads(_env(pod.body)["TF_CONFIG"])["cluster"]["worker"]) for pod in later.creations("pods")} == {4}
    new = own_pods(4, job_restarts=1, created=after(12))
    stale = planned(
        replace(job, status=replace(job.status, job_restarts=0, elastic=at_work(job, 2).status.elastic)), *new
    )
    assert (stale.deleted_pods, stale.status.job_restarts, stale.status.elastic) == ([], 1, None), "an old status"


def test_a_smaller_job_that_is_elastic_no_more_and_has_succeeded_does_not_restart() -> None:
    job = at_work(elastic_job(4), 2)
    job = replace(make_job({"Worker": 4}), status=job.status)
    made = planned(job, running(0, 2, phase="Succeeded", exit_code=0), running(1, 2), now=after(10))
    assert made.is_true(ConditionType.SUCCEEDED)
    assert (made.status.job_restarts, made.reasons.count("TFJobResized")) == (0, 0)


@pytest.mark.parametrize("suspended", [False, True])
def test_a_job_with_all_its_workers_goes_on_without_its_elastic_policy(*, suspended: bool) -> None:
    job = at_work(elastic_job(3), 2 if suspended else 3)
    policy = {"suspend": suspended}
    job = replace(make_job({"Worker": 3}, runPolicy=policy), status=job.status)
    made = planned(job, *(running(index, job.status.elastic.workers) for index in range(2)), now=after(10))
    assert made.status.job_restarts == 0
    assert "TFJobResized" not in made.reasons


def test_an_exceeded_quota_is_a_lack_of_room() -> None:
    job = at_work(elastic_job(), 3, lacking_since=NOW)
    refused = {(ReplicaType.WORKER, 2): Reason(ReasonKind.QUOTA, "QuotaExceeded: pods")}
    observed = Observed(job, (running(0, 3), running(1, 3)), services_of(job), not_created=refused)
    assert plan_for(observed, after(60)).status.elastic.workers == 2


def with_another(kind: str, workers: int, **more: Any) -> TFJob:
    """An elastic job of four wanted workers and a replica of another type, at work with this number of workers."""
    policy = {"minReplicas": 1, "maxReplicas": 8, "shrinkAfterSeconds": 60, "growAfterSeconds": 600}
    return at_work(make_job({"Worker": 4, kind: 1}, elasticPolicy=policy), workers, **more)


NO_MATCH = "0/3 nodes are available: {} node(s) didn't match Pod's node affinity/selector."
NO_MATCH_OR_CPU = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {gpu: true}."


@pytest.mark.parametrize(
    ("kind", "message", "workers"),
    [
        ("Evaluator", NO_CPU.message, 4),
        ("Chief", NO_CPU.message, 3),
        ("Master", NO_MATCH_OR_CPU, 3),
        ("Chief", NO_MATCH.format(3), 4),
    ],
    ids=["evaluator", "chief", "a worker uses the only node", "no worker uses a node for it"],
)
def test_a_replica_of_another_type_without_a_node_takes_a_worker_only_if_it_needs_its_room(
    kind: str, message: str, workers: int
) -> None:
    job = with_another(kind, 4)
    condition = PodCondition("PodScheduled", "False", "Unschedulable", message)
    other = _made_for(make_pod(f"{kind}-0", "Pending", conditions=(condition,)), 4)
    pods = [other, *(running(index, 4) for index in range(4))]
    first = planned(job, *pods, now=after(1))
    made = planned(with_status(job, first.status), *pods, now=after(100))
    assert made.status.elastic.workers == workers
    assert (first.status.elastic.lacking_since is None) is (workers == 4)


def test_an_evaluator_that_a_quota_refuses_takes_no_worker() -> None:
    job = with_another("Evaluator", 4, lacking_since=NOW)
    refused = {(ReplicaType.EVALUATOR, 0): Reason(ReasonKind.QUOTA, "QuotaExceeded: pods")}
    pods = tuple(running(index, 4) for index in range(4))
    made = plan_for(Observed(job, pods, services_of(job), not_created=refused), after(60))
    assert (made.status.elastic.workers, made.status.elastic.lacking_since) == (4, None)


def test_a_job_grows_while_its_evaluator_waits_for_a_node_and_not_after_its_evaluator_has_ended() -> None:
    job = with_another("Evaluator", 2)
    pods = [running(0, 2), running(1, 2)]
    waits = _made_for(make_pod("Evaluator-0", "Pending", conditions=(NO_CPU,)), 2)
    ended = _made_for(make_pod("Evaluator-0", "Succeeded", exit_code=0), 2)
    for evaluator, probes in ((waits, 2), (ended, 0)):
        made = planned(job, evaluator, *pods, now=after(700))
        assert len([action for action in made.actions if not action.required]) == probes


def test_a_gang_comes_together_with_the_least_number() -> None:
    options = plan_options(gang=gang_scheduler("volcano"))
    made = planned(elastic_job(), options=options)
    (group,) = made.creations("podgroups")
    assert group.body["spec"]["minMember"] == 1


@pytest.mark.parametrize(("asked", "members"), [(3, 2), (2, 2), (1, 1), (4, 4)])
def test_a_smaller_job_does_not_wait_for_a_gang_of_the_wanted_number(asked: int, members: int) -> None:
    options = plan_options(gang=gang_scheduler("scheduler-plugins"))
    job = elastic_job(3, runPolicy={"schedulingPolicy": {"minAvailable": asked}})
    made = planned(at_work(job, 2), options=options)
    (group,) = made.creations("podgroups")
    assert group.body["spec"]["minMember"] == members
    waits = made.condition(ConditionType.RUNNING).message
    assert ("can never start" in waits) is (asked > 3), "a number above the wanted number is a mistake in the spec"


def test_a_job_in_a_queue_makes_no_probe_beyond_its_quota() -> None:
    job = at_work(elastic_job(), 2)
    gate = QueueGate("Admitted", "research", admitted=True, quota={"worker": 2})
    observed = Observed(job, (running(0, 2), running(1, 2)), services_of(job)[:2], gate=gate)
    made = plan_for(observed, after(1000))
    assert [action for action in made.actions if not action.required] == []


def in_queue(job: TFJob, admitted: int, *pods: Pod) -> Observed:
    """The job, of which Kueue has admitted this number of workers, as the plan gets it."""
    spec = job.spec.tf_replica_specs["Worker"]
    assert spec is not None
    gate = QueueGate("Admitted", "research", admitted=True, quota={"worker": admitted}, workers=spec.desired)
    specs = {"Worker": replace(spec, replicas=admitted)}
    return Observed(replace(job, spec=replace(job.spec, tf_replica_specs=specs)), pods, services_of(job), gate=gate)


def test_a_job_with_quota_for_some_of_its_workers_shows_how_many_its_spec_has() -> None:
    job = elastic_job(3)
    made = plan_for(in_queue(job, 1), NOW)
    assert made.created_pods == ["Worker-0"]
    assert made.status.elastic == ElasticStatus(1, 3, NOW)
    running_now = plan_for(in_queue(with_status(job, made.status), 1, running(0, 1)), after(5))
    assert "the job has 1 of the 3 requested workers" in running_now.condition("Running").message
    assert running_now.is_true(ConditionType.READY)


def held_in_queue(job: TFJob, *pods: Pod, at: float = 100) -> ReadablePlan:
    return plan_for(Observed(job, pods, services_of(job), gate=QueueGate("Preempted", "a job came first")), after(at))


def preempted(job: TFJob, workers: int) -> TFJob:
    """The job, which ran with this number of workers until Kueue preempted it, and has no pods any more."""
    job = at_work(job, workers)
    pods = [running(index, workers) for index in range(workers)]
    ran = with_status(job, plan_for(in_queue(job, workers, *pods), after(50)).status)
    return with_status(ran, held_in_queue(ran, *pods).status)


def test_a_preempted_job_keeps_its_number_until_kueue_admits_it_with_another_number() -> None:
    job = preempted(elastic_job(3, runPolicy={"backoffLimit": 0}), 3)
    held = job.status.elastic
    assert held is not None
    assert (held.workers, held.workers_before, held.wanted, held.changes, held.text()) == (0, 3, 3, 0, "")
    assert held_in_queue(job, at=200).status.elastic == held
    made = plan_for(in_queue(job, 1), after(300))
    assert made.write_status_first
    assert made.created_pods == ["Worker-0"]
    now = made.status.elastic
    assert now is not None
    assert (now.workers, now.workers_before, now.wanted, now.changes, now.since) == (1, 0, 3, 1, after(300))
    (change,) = now.resizes
    why = "Kueue admitted 1 of the 3 requested workers"
    assert (change.before, change.workers, change.reason, change.untrained_seconds) == (3, 1, why, None)
    (event,) = [candidate for candidate in made.events if candidate.reason == "TFJobResized"]
    assert event.message == f"job mnist goes from 3 to 1 worker, because {why}."
    restarting = made.condition(ConditionType.RESTARTING)
    assert (restarting.status, restarting.reason, restarting.message) == ("True", "TFJobResized", event.message)
    assert (made.status.restarts, made.status.job_restarts, made.status.disruptions) == (0, 0, 0)
    again = plan_for(in_queue(with_status(job, made.status), 1), after(301))
    assert again.status.elastic == now, "a change is counted once"
    worker = running(0, 1, created=after(300), start=after(310))
    runs = plan_for(in_queue(with_status(job, made.status), 1, worker), after(320))
    assert runs.is_true(ConditionType.RUNNING)
    assert runs.status.elastic is not None
    assert [resize.cost for resize in runs.status.elastic.resizes] == ["20 s without training"]
    assert all(condition.type != ConditionType.RESTARTING for condition in runs.status.conditions)
    larger = in_queue(with_status(job, runs.status), 3, worker)
    assert [action for action in plan_for(larger, after(899)).actions if not action.required] == [], "growAfterSeconds"
    assert len([action for action in plan_for(larger, after(900)).actions if not action.required]) == 2


@pytest.mark.parametrize(
    ("ran", "wanted", "admitted", "change"),
    [
        (3, 3, 3, ""),
        (1, 3, 3, "from 1 to 3 workers, because Kueue admitted 3 of the 3 requested workers"),
        (3, 2, 2, "from 3 to 2 workers, because the number of workers was set to 2"),
        (3, 5, 2, "from 3 to 2 workers, because Kueue admitted 2 of the 5 requested workers"),
    ],
    ids=["the same number", "more", "scaled while it waited", "scaled, and admitted in part"],
)
def test_a_job_that_kueue_admits_again_reports_only_another_number(
    ran: int, wanted: int, admitted: int, change: str
) -> None:
    job = preempted(elastic_job(3), ran)
    job = replace(elastic_job(wanted), status=job.status)
    made = plan_for(in_queue(job, admitted), after(300))
    assert made.status.elastic is not None
    assert (made.status.elastic.workers, made.status.elastic.changes) == (admitted, int(bool(change)))
    assert [event.message for event in made.events if event.reason == "TFJobResized"] == (
        [f"job mnist goes {change}."] if change else []
    )


@pytest.mark.parametrize("first", ["the user", "Kueue"])
def test_a_job_that_a_user_has_suspended_starts_with_any_number_without_a_change(first: str) -> None:
    job = preempted(elastic_job(3), 3) if first == "Kueue" else at_work(elastic_job(3), 3)
    run_policy = replace(job.spec.run_policy, suspend=True)
    suspended = plan_for(Observed(replace(job, spec=replace(job.spec, run_policy=run_policy))), after(200))
    assert suspended.status.elastic is not None
    assert (suspended.status.elastic.workers_before, suspended.status.elastic.wanted) == (0, 0)
    waits = held_in_queue(with_status(job, suspended.status), at=210)
    made = plan_for(in_queue(with_status(job, waits.status), 1), after(300))
    assert made.status.elastic is not None
    assert (made.status.elastic.workers, made.status.elastic.changes, made.status.elastic.resizes) == (1, 0, ())
    assert "TFJobResized" not in made.reasons


def test_the_last_changes_are_kept_with_their_costs() -> None:
    state = ElasticStatus(3, 3, NOW)
    for number in range(12):
        state = state.with_resize(Resize(after(number), 3, 2, "a test", untrained_before=10 * number))
    assert [resize.untrained_before for resize in state.resizes] == [10 * number for number in range(2, 12)]
    assert [resize.untrained_seconds for resize in state.resizes] == [*[10] * 9, None], (
        "a later change ends an earlier one"
    )
    assert state.resizes[-1].text() == f"3 to 2 at {after(11):%Y-%m-%d %H:%M:%S}: not at work yet"
    closed = state.closed(117)
    assert closed.resizes[-1].untrained_seconds == 7
    assert closed.closed(500) is closed
    assert state.closed(3).resizes[-1].untrained_seconds == 0, "sums that somebody wrote never make it negative"


@pytest.mark.parametrize("end", ["succeeded", "failed", "suspended"])
def test_a_change_after_which_the_job_never_trains_has_a_cost_when_the_job_ends_or_is_suspended(end: str) -> None:
    open_change = Resize(NOW, 2, 1, "a test", untrained_before=0)
    job = at_work(elastic_job(2, runPolicy={"backoffLimit": 0}), 1, resizes=(open_change,))
    worker = running(0, 1, phase="Succeeded", exit_code=0) if end == "succeeded" else running(0, 1)
    if end == "failed":
        worker = running(0, 1, phase="Failed", exit_code=1)
    if end == "suspended":
        job = replace(job, spec=replace(job.spec, run_policy=replace(job.spec.run_policy, suspend=True)))
    made = planned(job, worker, now=after(90))
    assert made.status.elastic is not None
    assert made.status.usage is not None
    (change,) = made.status.elastic.resizes
    assert change.untrained_seconds == made.status.usage.untrained(after(90))
    assert "without training" in change.text()


def test_a_change_that_comes_with_the_end_of_the_job_is_not_made_and_not_recorded() -> None:
    job = at_work(elastic_job(2), 3)
    made = planned(job, running(0, 3, phase="Succeeded", exit_code=0), running(1, 3), running(2, 3), now=after(500))
    assert made.is_true(ConditionType.SUCCEEDED)
    assert (made.status.elastic.workers, made.status.elastic.resizes) == (3, ())


def test_below_the_least_number_the_condition_has_the_number_and_what_the_job_waits_for() -> None:
    job = at_work(make_job({"Worker": 3}, elasticPolicy={"minReplicas": 2}), 2, lacking_since=NOW)
    made = planned(job, running(0, 2), pending(1, 2, conditions=(NO_CPU,)), now=after(600))
    assert made.status.elastic is not None
    assert (made.status.elastic.workers, made.deleted_pods) == (2, [])
    message = made.condition("Running").message
    assert "the job does not train with fewer than 2 workers (minReplicas)" in message
    assert "Insufficient cpu" in message
