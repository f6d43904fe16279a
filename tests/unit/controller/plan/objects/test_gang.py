import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    NOW,
    ReadablePlan,
    make_job,
    make_pod,
    plan_for,
    planned,
    started,
    with_status,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import TFJob
from tfoperator.controller import SchedulingRules
from tfoperator.controller.kueue.objects import Priority
from tfoperator.controller.observe.informers import priorities_of
from tfoperator.controller.plan.values.actions import Action, Create, Delete, Patch
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.controller.pods.gang import GangScheduler, gang_scheduler
from tfoperator.controller.pods.pod_groups import PodGroup, decode_pod_group
from tfoperator.controller.pods.scheduling_rules import AllowedNames
from tfoperator.kube import apply_merge_patch
from tfoperator.kube.views.objects import ObjectMeta, Pod, PodSpec, decode_pod
from tfoperator.kube.views.pod_status import PodCondition

VOLCANO, COSCHEDULING, KUBERNETES = map(gang_scheduler, ("volcano", "mine", "Kubernetes"))


def replicas(count: int, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "tensorflow", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"replicas": count, "template": {"spec": {"containers": [container], **spec}}}


def gang_job(replicas_: dict[str, Any], **policy: Any) -> TFJob:
    return make_job(replicas_, runPolicy={"schedulingPolicy": policy})


def decide(
    job: TFJob,
    *pods: Pod,
    group: PodGroup | None = None,
    gang: GangScheduler = VOLCANO,
    priorities: dict[str, int] | None = None,
    rules: SchedulingRules | None = None,
) -> ReadablePlan:
    observed = Observed(job, pods, (), pod_group=group, priorities=priorities or {})
    return plan_for(observed, options=plan_options(gang=gang, scheduling=rules or SchedulingRules()))


def of_group(result: ReadablePlan, kind: type[Action]) -> Any:
    """Return the plan's action of this kind for the PodGroup, or None."""
    return next((action for action in result.actions if isinstance(action, kind) and action.kind == "podgroups"), None)


def body_of_group(result: ReadablePlan) -> dict[str, Any]:
    return dict(of_group(result, Create).body)


def made(job: TFJob, gang: GangScheduler = VOLCANO, **options: Any) -> dict[str, Any]:
    """Return the spec of the PodGroup of a new job."""
    result = decide(job, gang=gang, **options)
    return dict(body_of_group(result)["spec"])


def pod_group(job: TFJob, phase: str = "Inqueue", gang: GangScheduler = VOLCANO, **changes: Any) -> PodGroup:
    """The job's own PodGroup as the API server has it; `changes` to its spec."""
    result = decide(job, gang=gang)
    body = body_of_group(result)
    body = {**body, "metadata": {**body["metadata"], "uid": "group-uid"}, "status": {"phase": phase}}
    return decode_pod_group(json.dumps({**body, "spec": {**body["spec"], **changes}}).encode())


def member(replica: str, phase: str = "Pending", *, node: str = "", refusal: str = "", **options: Any) -> Pod:
    """A pod that is a member of the job's PodGroup, for each kind of scheduler."""
    conditions = (PodCondition("PodScheduled", "False", "Unschedulable", refusal),) if refusal else ()
    pod = make_pod(replica, phase, conditions=conditions, **options)
    meta = pod.metadata
    marks = msgspec.structs.replace(
        meta,
        labels={**meta.labels, "scheduling.x-k8s.io/pod-group": "mnist"},
        annotations={**meta.annotations, "scheduling.k8s.io/group-name": "mnist"},
    )
    return Pod(metadata=marks, spec=PodSpec(node, scheduling_group={"podGroupName": "mnist"}), status=pod.status)


def message(result: ReadablePlan) -> str:
    return result.condition(ConditionType.RUNNING).message if result.has_condition(ConditionType.RUNNING) else ""


# Which scheduler.


def test_names_stand_for_schedulers_and_priorities_are_those_of_the_classes_and_the_default_for_the_rest() -> None:
    assert gang_scheduler("") is None
    assert gang_scheduler("none") is None
    assert gang_scheduler("Volcano") == VOLCANO
    assert (COSCHEDULING.name, COSCHEDULING.pod_groups.group) == ("mine", "scheduling.x-k8s.io")
    assert (KUBERNETES.name, KUBERNETES.pod_groups.group) == ("default-scheduler", "scheduling.k8s.io")
    classes = [Priority(ObjectMeta(name="a"), 5), Priority(ObjectMeta(name="b"), 7, True)]
    assert priorities_of(classes) == {"a": 5, "b": 7, "": 7}
    assert priorities_of(classes[:1]) == {"a": 5, "": 0}


# The requests of a PodGroup.


def test_a_coscheduling_pod_group_knows_a_timeout_and_no_queue_and_each_is_its_jobs_own() -> None:
    job = gang_job({"Worker": replicas(2)}, queue="q", priorityClass="high", scheduleTimeoutSeconds=7)
    assert made(job, COSCHEDULING) == {"minMember": 2, "minResources": {"cpu": "2"}, "scheduleTimeoutSeconds": 7}
    metadata = body_of_group(decide(job))["metadata"]
    assert (metadata["name"], metadata["ownerReferences"][0]["uid"]) == ("mnist", "job-uid")
    assert metadata["ownerReferences"][0]["controller"] is metadata["ownerReferences"][0]["blockOwnerDeletion"] is True


URGENT = replicas(1, priorityClassName="urgent")
TOPOLOGY = {"training.kubeflow.org/gang-topology": "topology.kubernetes.io/zone"}


@pytest.mark.parametrize(
    ("specs", "run_policy", "annotations", "asked"),
    [
        ({"PS": replicas(1), "Worker": replicas(2)}, {}, {}, {3: {}}),
        ({"Worker": replicas(2)}, {"schedulingPolicy": {"minAvailable": 1, "queue": "q"}}, {}, {1: {}}),
        ({"Worker": replicas(2)}, {"schedulingPolicy": {"minAvailable": 0}}, {}, {1: {}}),
        ({"Worker": replicas(2)}, {"restartScope": "Job"}, {}, {2: {"disruptionMode": {"all": {}}}}),
        ({"PS": URGENT, "Worker": URGENT}, {}, {}, {2: {"priorityClassName": "urgent"}}),
        ({"PS": URGENT, "Worker": replicas(1)}, {}, {}, {2: {}}),
        ({"PS": replicas(0), "Worker": URGENT}, {}, {}, {1: {"priorityClassName": "urgent"}}),
        ({"Worker": URGENT}, {"schedulingPolicy": {"priorityClass": "low"}}, {}, {1: {"priorityClassName": "low"}}),
        (
            {"Worker": replicas(2)},
            {},
            TOPOLOGY,
            {2: {"schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]}}},
        ),
    ],
)
def test_a_pod_group_of_kubernetes_has_a_least_number_and_what_cannot_be_changed_later(
    specs: dict[str, Any], run_policy: dict[str, Any], annotations: dict[str, str], asked: dict[int, dict[str, Any]]
) -> None:
    job = annotated(make_job(specs, runPolicy=run_policy), annotations)
    ((count, more),) = asked.items()
    assert made(job, KUBERNETES) == {"schedulingPolicy": {"gang": {"minCount": count}}, **more}


def annotated(job: TFJob, annotations: dict[str, str]) -> TFJob:
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, annotations=annotations))


OF_VOLCANO = ("preemptable", "task-topology-affinity", "task-topology-anti-affinity", "task-topology-task-order")
OF_ADMINISTRATORS = ("cooldown-time", "revocable-zone", "sla-waiting-time", "jdb-min-available", "hierarchy")


@pytest.mark.parametrize("gang", [VOLCANO, COSCHEDULING])
@pytest.mark.parametrize(
    ("allowed", "passed"),
    [
        (None, OF_VOLCANO),
        (AllowedNames(("*",), {"other": ()}), OF_VOLCANO + OF_ADMINISTRATORS),
        (AllowedNames(("*",), {"ns": ("volcano.sh/sla-waiting-time",)}), ("sla-waiting-time",)),
    ],
)
def test_it_has_those_annotations_of_the_job_that_administrators_allow(
    allowed: AllowedNames | None, passed: tuple[str, ...], gang: GangScheduler
) -> None:
    job = make_job({"Worker": 1})
    notes = {f"volcano.sh/{name}": "x" for name in OF_VOLCANO + OF_ADMINISTRATORS}
    every = notes | {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    job = annotated(job, every)
    rules = SchedulingRules() if allowed is None else SchedulingRules(annotations=allowed)
    wanted = {f"volcano.sh/{name}": "x" for name in passed}
    assert body_of_group(decide(job, gang=gang, rules=rules))["metadata"]["annotations"] == wanted
    current = PodGroup(metadata=msgspec.structs.replace(pod_group(job).metadata, annotations={"others": "y"}))
    assert gang.change(job, current, current.spec, rules.annotations_of(job))["metadata"]["annotations"] == wanted


@given(
    counts=st.dictionaries(st.sampled_from(["Chief", "PS", "Worker", "Evaluator"]), st.integers(0, 4), min_size=1),
    cpus=st.lists(st.integers(0, 9), min_size=4, max_size=4),
    ranks=st.lists(st.sampled_from(["", "low", "high"]), min_size=4, max_size=4),
    least=st.integers(0, 20),
    order=st.permutations([0, 1, 2, 3]),
)
def test_the_smallest_gang_is_the_first_pods_by_priority_and_role_in_whatever_order_they_are_written(
    counts: dict[str, int], cpus: list[int], ranks: list[str], least: int, order: list[int]
) -> None:
    roles = ["Chief", "PS", "Worker", "Evaluator"]
    values = {"low": 1, "high": 2, "": 0}
    specs = {
        role: replicas(counts[role], str(cpu), **({"priorityClassName": rank} if rank else {}))
        for role, cpu, rank in zip(roles, cpus, ranks, strict=True)
        if role in counts
    }
    shuffled = {roles[i]: specs[roles[i]] for i in order if roles[i] in specs}
    pods = [
        (-values[rank], position, cpu)
        for position, (role, cpu, rank) in enumerate(zip(roles, cpus, ranks, strict=True))
        for _ in range(counts.get(role, 0))
    ]
    wanted = sum(cpu for _, _, cpu in sorted(pods)[:least])
    spec = made(gang_job(shuffled, minAvailable=least), priorities=values)
    assert spec["minMember"] == least
    assert spec.get("minResources", {}) == ({"cpu": str(wanted)} if wanted else {})


@pytest.mark.parametrize("gang", [VOLCANO, COSCHEDULING])
def test_resources_beyond_the_bounds_of_a_cache_are_removed_once_a_gang_needs_room(gang: GangScheduler) -> None:
    job = started(make_job({"Worker": replicas(2)}))
    flood = {f"example.com/{number}": "1" for number in range(5_000)}
    group = pod_group(job, gang=gang, minResources=flood)
    assert group.spec.min_resources is None
    rests = decide(job, *(member(f"Worker-{n}", "Running", node="n1") for n in range(2)), group=group, gang=gang)
    assert of_group(rests, Patch) is None
    waits = decide(job, *(member(f"Worker-{n}") for n in range(2)), group=group, gang=gang)
    assert of_group(waits, Patch).body == {"spec": {"minResources": None}}


# When pods may be made.


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_volcano_pods_are_made_once_it_is(phase: str) -> None:
    job = make_job({"Worker": replicas(2)})
    result = decide(job, group=pod_group(job, phase))
    assert result.created_pods == ["Worker-0", "Worker-1"]
    assert (of_group(result, Create), of_group(result, Patch)) == (None, None)
    body = result.creations("pods")[0].body
    assert body["spec"]["schedulerName"] == "volcano"
    marks = {"scheduling.k8s.io/group-name": "mnist", "volcano.sh/task-spec": "worker"}
    assert body["metadata"]["annotations"] == marks


def test_other_pods_are_made_with_their_group_but_another_scheduler_is_kept_and_pods_that_are_no_members() -> None:
    job = make_job({"Worker": replicas(2)})
    coscheduled, of_kubernetes = (decide(job, gang=gang) for gang in (COSCHEDULING, KUBERNETES))
    assert None not in (of_group(coscheduled, Create), of_group(of_kubernetes, Create))
    body = coscheduled.creations("pods")[0].body
    assert body["spec"]["schedulerName"] == "mine"
    assert body["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "mnist"
    spec = of_kubernetes.creations("pods")[0].body["spec"]
    assert (spec["schedulerName"], spec["schedulingGroup"]) == ("default-scheduler", {"podGroupName": "mnist"})
    pod = decode_pod(json.dumps({"metadata": {"name": "x"}, "spec": spec}).encode())
    assert KUBERNETES.is_member(pod, job)
    assert not KUBERNETES.is_member(make_pod("Worker-0"), job)
    job = make_job({"PS": replicas(1, schedulerName="theirs"), "Worker": replicas(2, schedulerName="theirs")})
    result = decide(job, group=pod_group(job))
    assert {pod.body["spec"]["schedulerName"] for pod in result.creations("pods")} == {"theirs"}
    assert result.reasons.count("SetPodTemplateSchedulerName") == 1
    result = decide(started(make_job({"Worker": replicas(2)})), make_pod("Worker-0"))
    assert of_group(result, Create) is None
    assert result.created_pods == ["Worker-1"]
    assert "schedulerName" not in result.creations("pods")[0].body["spec"]


def leaving(group: PodGroup) -> PodGroup:
    return msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, deletion_timestamp=NOW))


@pytest.mark.parametrize("gang", [VOLCANO, KUBERNETES])
def test_a_group_that_is_being_deleted_is_waited_for(gang: GangScheduler) -> None:
    job = make_job({"Worker": replicas(2)})
    result = decide(job, group=leaving(pod_group(job, gang=gang)), gang=gang)
    assert not result.changes_objects
    assert "is being deleted" in message(result)


@pytest.mark.parametrize(("gang", "created"), [(COSCHEDULING, []), (KUBERNETES, ["Worker-1"])])
def test_a_deleted_group_that_pods_keep_is_used_on(gang: GangScheduler, created: list[str]) -> None:
    """Kubernetes' own goes when its last pod has: to wait for that would stop the job for ever."""
    job = started(make_job({"Worker": replicas(2)}))
    result = decide(job, member("Worker-0", "Running", node="n"), group=leaving(pod_group(job, gang=gang)), gang=gang)
    assert result.created_pods == created


@pytest.mark.parametrize("annotated", [True, False])
def test_membership_is_seen_on_the_pods_that_caches_keep(annotated: bool) -> None:
    job = make_job({"Worker": 1})
    annotations = {"scheduling.k8s.io/group-name": "mnist", "other": "x"} if annotated else {"other": "x"}
    pod = decode_pod(json.dumps({"metadata": {"name": "x", "annotations": annotations}}).encode())
    assert VOLCANO.is_member(pod, job) is annotated


# How it changes.


def test_what_differs_is_patched_and_nothing_else_of_a_group_of_kubernetes_the_size_alone() -> None:
    job = make_job({"Worker": replicas(2)})
    lowered = gang_job({"Worker": replicas(2)}, minAvailable=1, priorityClass="high")
    patch = of_group(decide(lowered, group=pod_group(job)), Patch)
    changes = {"minMember": 1, "minResources": {"cpu": "1"}, "priorityClassName": "high"}
    assert (patch.uid, patch.body) == ("group-uid", {"spec": changes})
    policy = {"schedulingPolicy": {"minAvailable": 1, "priorityClass": "high", "minResources": {"cpu": "9"}}}
    changed = annotated(make_job({"Worker": replicas(2)}, runPolicy={"restartScope": "Job", **policy}), TOPOLOGY)
    patch = of_group(decide(changed, group=pod_group(job, gang=KUBERNETES), gang=KUBERNETES), Patch)
    assert patch.body == {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}


@pytest.mark.parametrize("gang", [VOLCANO, COSCHEDULING, KUBERNETES], ids=lambda gang: gang.kind)
@given(
    old=st.fixed_dictionaries({}, optional={"minAvailable": st.integers(0, 5), "priorityClass": st.sampled_from("ab")}),
    new=st.fixed_dictionaries(
        {},
        optional={
            "minAvailable": st.integers(0, 5),
            "priorityClass": st.sampled_from("ab"),
            "queue": st.sampled_from("qr"),
            "scheduleTimeoutSeconds": st.integers(0, 3),
            "minResources": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "1000m", 2])),
        },
    ),
)
def test_a_patched_group_needs_no_second_patch(gang: GangScheduler, old: dict[str, Any], new: dict[str, Any]) -> None:
    workers = {"Worker": replicas(3)}
    before = pod_group(gang_job(workers, **old), gang=gang)
    job = gang_job(workers, **new)
    patch = of_group(decide(job, group=before, gang=gang), Patch)
    if patch is not None:
        before = msgspec.convert(apply_merge_patch(msgspec.to_builtins(before), patch.body), PodGroup)
    assert of_group(decide(job, group=before, gang=gang), Patch) is None
    assert before.spec.members == max(new.get("minAvailable", 3), int(gang is KUBERNETES))


def test_completed_replicas_count_only_while_nothing_needs_room() -> None:
    job = make_job({"Worker": {**replicas(3), "restartPolicy": "ExitCode"}}, successPolicy="AllWorkers")
    group = pod_group(job, gang=COSCHEDULING)
    done = [member(f"Worker-{i}", "Succeeded", node="n", exit_code=0) for i in range(2)]
    job = with_status(job, decide(job, *done, member("Worker-2", "Running", node="n"), group=group).status)
    assert of_group(decide(job, *done, member("Worker-2", "Running", node="n"), group=group), Patch) is None
    patch = of_group(decide(job, *done, member("Worker-2", "Failed", node="n", exit_code=137), group=group), Patch)
    assert patch.body == {"spec": {"minMember": 1, "minResources": {"cpu": "1"}}}


def test_the_group_goes_when_the_job_is_suspended_or_has_ended() -> None:
    job = started(make_job({"Worker": replicas(1)}))
    group = pod_group(job)
    suspended = with_status(make_job({"Worker": 1}, runPolicy={"suspend": True}), job.status)
    assert of_group(decide(suspended, group=group), Delete) is not None
    ended = decide(job, member("Worker-0", "Succeeded", node="n", exit_code=0), group=group)
    assert ended.is_true(ConditionType.SUCCEEDED)
    assert of_group(ended, Delete) is not None
    assert ended.write_status_first
    finished = with_status(job, ended.status)
    assert of_group(decide(finished, group=group), Delete) is not None
    assert not decide(finished).changes_objects


# The wait for the PodGroup.


def test_waiting_is_an_event_once_the_scheduler_has_looked_and_only_once() -> None:
    job = make_job({"Worker": replicas(2)}, runPolicy={"schedulingPolicy": {"queue": "q"}})
    fresh = decide(job)
    assert "waits until Volcano processes PodGroup mnist" in message(fresh)
    assert fresh.reasons == []
    job = with_status(job, fresh.status)
    assert not decide(job, group=pod_group(job, "")).write_status
    looked = decide(job, group=pod_group(job, "Pending"))
    assert "waits until Volcano admits PodGroup mnist to queue q" in message(looked)
    assert looked.reasons == ["Unschedulable"]
    again = decide(with_status(job, looked.status), group=pod_group(job, "Pending"))
    assert again.reasons == []
    assert not again.write_status


def test_the_gang_lacks_what_its_pods_lack_and_the_reason_outlives_echoes() -> None:
    job = started(make_job({"Worker": replicas(2)}))
    group = pod_group(job, gang=COSCHEDULING)

    def refused(job: TFJob, *refusals: str) -> ReadablePlan:
        pods = [member(f"Worker-{i}", refusal=refusal) for i, refusal in enumerate(refusals)]
        return decide(job, *pods, group=group, gang=COSCHEDULING)

    echo = "podGroup ns/mnist failed recently"
    sibling = "pre-filter pod mnist-worker-0 cannot find enough sibling pods, current pods number: 1"
    assert message(refused(job, sibling, "")) == ""
    result = refused(job, echo, "0/1 nodes are available: 1 Insufficient cpu.")
    assert message(result).endswith(
        "0/2 replicas ready; Worker-0 and Worker-1 wait: the gang of 2 pods (cpu 2) waits for room: Insufficient "
        "cpu. Next: wait until nodes have enough free resources, or request less."
    )
    assert result.reasons == ["Unschedulable"]
    echoed = refused(with_status(job, result.status), echo, echo)
    assert not echoed.write_status
    assert echoed.reasons == []


def test_a_gang_that_has_come_together_leaves_the_others_to_themselves() -> None:
    job = started(gang_job({"Worker": replicas(2)}, minAvailable=1))
    group = pod_group(job)
    result = decide(
        job, member("Worker-0", node="n"), member("Worker-1", refusal="0/1 nodes are available: 1 x."), group=group
    )
    assert "Worker-1 waits: Unschedulable: x" in message(result)
    assert "gang" not in message(result)


@pytest.mark.parametrize(("gang", "refusal"), [(VOLCANO, "pod group is not ready, 1 Pending"), (KUBERNETES, "")])
def test_a_gang_larger_than_the_job_says_so(gang: GangScheduler, refusal: str) -> None:
    job = started(gang_job({"Worker": replicas(1)}, minAvailable=10))
    result = decide(job, member("Worker-0", refusal=refusal), group=pod_group(job, gang=gang), gang=gang)
    assert "can never start: it needs more pods" in message(result)


def test_a_topology_that_the_server_leaves_out_is_said_once() -> None:
    job = annotated(started(make_job({"Worker": replicas(1)})), TOPOLOGY)
    group = pod_group(job, gang=KUBERNETES)
    pod = member("Worker-0", "Running", node="n", ready=True)
    assert "TopologyIgnored" not in decide(job, pod, group=group, gang=KUBERNETES).reasons
    without = pod_group(job, gang=KUBERNETES, schedulingConstraints=None)
    result = decide(job, pod, group=without, gang=KUBERNETES)
    assert result.reasons.count("TopologyIgnored") == 1
    assert "PodGroup mnist has no topology: the API server's feature gate" in message(result)
    again = decide(annotated(with_status(job, result.status), TOPOLOGY), pod, group=without, gang=KUBERNETES)
    assert "TopologyIgnored" not in again.reasons
    assert not again.write_status


@pytest.mark.parametrize(
    ("scope", "says"),
    [
        ("Replica", "ended replica(s): Worker-0 (preempted by the scheduler: PreemptionByScheduler)."),
        ("Job", "restarting all its replicas because of Worker-0 (preempted by the scheduler: PreemptionByScheduler)."),
    ],
)
def test_a_gang_that_was_preempted_says_so(scope: str, says: str) -> None:
    job = make_job({"Worker": replicas(1)}, runPolicy={"restartScope": scope})
    job = with_status(job, planned(started(job), make_pod("Worker-0")).status)
    disruption = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler", "preempting")
    pod = make_pod("Worker-0", deleted=NOW, conditions=(disruption,))
    assert says in planned(job, pod).condition(ConditionType.RESTARTING).message


# The names that a PodGroup may use.

POLICY = "spec.runPolicy.schedulingPolicy"
RULES = SchedulingRules(
    priority_classes=AllowedNames(("low", "system-node-critical"), {"ns": ("high",), "open": ("*",)}),
    queues=AllowedNames(("slow",)),
)


@pytest.mark.parametrize(
    ("rules", "policy", "complaint"),
    [
        (
            SchedulingRules(),
            {"priorityClass": "system-cluster-critical"},
            f'{POLICY}.priorityClass: "system-cluster-critical" is not allowed in namespace ns; '
            "allowed: any but system-*",
        ),
        (
            RULES,
            {"priorityClass": "low"},
            f'{POLICY}.priorityClass: "low" is not allowed in namespace ns; allowed: high',
        ),
        (RULES, {"queue": "fast"}, f'{POLICY}.queue: "fast" is not allowed in namespace ns; allowed: slow'),
        (SchedulingRules(queues=AllowedNames(())), {"queue": "default"}, "in namespace ns; allowed: none"),
        (RULES, {"queue": "*"}, f'{POLICY}.queue: "*" is not allowed'),
    ],
)
def test_a_job_that_asks_for_what_it_may_not_have_gets_no_pod_group(
    rules: SchedulingRules, policy: dict[str, Any], complaint: str
) -> None:
    result = decide(gang_job({"Worker": 1}, **policy), rules=rules)
    assert list(result.actions) == []
    failed = result.condition(ConditionType.FAILED)
    assert failed.reason == "TFJobInvalid"
    assert complaint in failed.message
    assert [(event.type, event.reason) for event in result.events] == [("Warning", "TFJobInvalid")]


def test_only_pod_groups_that_name_a_class_are_asked_about_and_a_job_that_runs_keeps_what_its_own_has() -> None:
    result = decide(gang_job({"Worker": 1}, priorityClass="system-x"), gang=COSCHEDULING, rules=RULES)
    assert "priorityClassName" not in body_of_group(result)["spec"]
    job = gang_job({"Worker": 2}, priorityClass="old", queue="fast")
    group = pod_group(job, "Running")
    running = started(job)
    pods = [member(f"Worker-{index}", "Running", node="n") for index in (0, 1)]
    result = decide(running, *pods, group=group, rules=RULES)
    assert not [action for action in result.actions if action.kind == "podgroups"]
    assert result.condition(ConditionType.RUNNING).status == "True"
    # Without its PodGroup it would need a new PodGroup, which the rules forbid.
    result = decide(running, *pods, rules=RULES)
    assert list(result.actions) == []
    assert result.condition(ConditionType.RUNNING).reason == "TFJobInvalid"
