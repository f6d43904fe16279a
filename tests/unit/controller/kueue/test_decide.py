"""The actions for Kueue: tables of single decisions, and random orders of events in a small world with a quota."""

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hack.simulated_pods import bound, unschedulable
from tests.support.fake_api import FakeApi
from tests.unit.controller.builders import (
    NOW,
    OPTIONS,
    TEMPLATE,
    ReadablePlan,
    make_job,
    make_pod,
    plan_for,
    services_of,
    with_status,
)
from tests.unit.controller.plan.objects.test_tensorboard import BOARD, NAME, Objects
from tfoperator.api.kueue.queues import ADOPTED, POD_SETS_ANNOTATION, QUEUE_LABEL, REPLACES_ANNOTATION
from tfoperator.api.kueue.workloads import WORKLOADS, AdmissionCheck, Workload, decode_workload
from tfoperator.api.replicas.names import ANNOTATION_JOB_RESTARTS, is_probe, replica_of
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.kueue.decide import Decision, QueueFacts, decide
from tfoperator.controller.kueue.growth import Roles, roles_of, wish
from tfoperator.controller.kueue.objects import IN_USE, Flavor
from tfoperator.controller.kueue.reclaiming import occupies
from tfoperator.controller.kueue.requests import send
from tfoperator.controller.kueue.writes import Verb
from tfoperator.controller.plan.values.actions import Create
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.kube.protocol.errors import ConflictError
from tfoperator.kube.views.objects import Pod

FLAVORS = {
    "fast": msgspec.convert(
        {"spec": {"nodeLabels": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}}, Flavor
    )
}


SUCCEEDED = {"type": "Succeeded", "status": "True"}


def queued(
    replicas: dict[str, Any] | None = None, *, queue: str = "research", suspend: bool = False, **spec: Any
) -> TFJob:
    policy = {**spec.pop("runPolicy", {}), **({"suspend": True} if suspend else {})}
    job = make_job(replicas or {"PS": 1, "Worker": 2}, runPolicy=policy, **spec)
    labels = {QUEUE_LABEL: queue} if queue else {}
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, labels=labels))


def elastic(least: int) -> dict[str, Any]:
    """Return the spec of a job with one parameter server that is content with so few workers."""
    return {"enableDynamicWorker": True, "runPolicy": {"schedulingPolicy": {"minAvailable": 1 + least}}}


class Api:
    """The Workloads that a job has, on an API server to which decisions are sent as the operator sends them.

    A job has one Workload, and an elastic job may have a second Workload, which asks for more workers.
    """

    def __init__(self) -> None:
        self.made = self.made_larger = 0
        self.now = NOW
        self._server = FakeApi(lambda: NOW)

    @property
    def workloads(self) -> list[Workload]:
        return [decode_workload(msgspec.json.encode(body)) for body in self._server.objects(WORKLOADS)]

    @property
    def roles(self) -> Roles:
        return roles_of(self.workloads)

    @property
    def workload(self) -> Workload | None:
        return self.roles.current

    @property
    def stored(self) -> dict[str, Any] | None:
        """The Workload that decides about the job."""
        return None if self.workload is None else self.raw(self.workload.metadata.name)

    def raw(self, name: str) -> dict[str, Any]:
        return next(body for body in self._server.objects(WORKLOADS) if body["metadata"]["name"] == name)

    def carry_out(self, decision: Decision) -> None:
        for write in decision.writes:
            if write.verb is Verb.CREATE:
                is_larger = REPLACES_ANNOTATION in write.body["metadata"]["annotations"]
                assert len(self.workloads) == is_larger, "a second Workload"
                self.made += not is_larger
                self.made_larger += is_larger
            with suppress(ConflictError):
                send(self._server, "ns", write)

    def change(self, patch: dict[str, Any], name: str = "") -> None:
        self._server.edit(WORKLOADS, "ns", name or self._name, patch)

    def delete(self, name: str = "") -> None:
        self._server.delete(WORKLOADS, "ns", name or self._name)

    @property
    def _name(self) -> str:
        return str(self.stored["metadata"]["name"])

    def set(self, name: str = "", **conditions: bool) -> None:
        """Set conditions, as Kueue does."""
        raw, now = self.raw(name or self._name), self.now.isoformat()
        common = {"message": "said", "lastTransitionTime": now, "observedGeneration": raw["metadata"]["generation"]}
        new = [
            {"type": kind, "status": str(value), "reason": "Preempted", **common} for kind, value in conditions.items()
        ]
        old = [
            condition
            for condition in raw.get("status", {}).get("conditions", ())
            if condition["type"] not in conditions
        ]
        self.change({"status": {"conditions": old + new}}, name)

    def admit(self, counts: dict[str, int] | None = None, flavor: str = "fast", name: str = "") -> None:
        assignments = [
            {
                "name": pod_set["name"],
                "count": (counts or {}).get(pod_set["name"], pod_set["count"]),
                "flavors": {"cpu": flavor},
            }
            for pod_set in self.raw(name or self._name)["spec"]["podSets"]
        ]
        self.change({"status": {"admission": {"clusterQueue": "big", "podSetAssignments": assignments}}}, name)
        self.set(name or self._name, QuotaReserved=True, Admitted=True, Evicted=False)

    def finish_replaced(self) -> None:
        """Finish the Workload that another Workload with quota replaces, as Kueue does."""
        for workload in self.workloads:
            replaced = workload.replaces.rpartition("/")[2]
            if workload.is_true("QuotaReserved") and any(each.metadata.name == replaced for each in self.workloads):
                self.set(replaced, Finished=True)
                conditions = self.raw(replaced)["status"]["conditions"]
                done = [each | {"reason": "WorkloadSliceReplaced"} for each in conditions if each["type"] == "Finished"]
                others = [each for each in conditions if each["type"] != "Finished"]
                self.change({"status": {"conditions": others + done}}, replaced)

    def needed(self) -> dict[str, int]:
        """How many pods of each set need quota."""
        status = self.stored.get("status", {})
        spare = {pod["name"]: pod["count"] for pod in status.get("reclaimablePods") or ()}
        return {
            pod_set["name"]: pod_set["count"] - spare.get(pod_set["name"], 0)
            for pod_set in self.stored["spec"]["podSets"]
        }

    def quota(self) -> dict[str, int]:
        """How many pods of each set have quota now, by Kueue's own sum; by the largest of several Workloads."""
        reserved: dict[str, int] = {}
        for workload in self.workloads:
            if workload.is_true("QuotaReserved") and not workload.is_true("Finished"):
                spare = {pod.name: pod.count for pod in workload.status.reclaimable_pods}
                asks = {pod_set.name: pod_set.count - spare.get(pod_set.name, 0) for pod_set in workload.spec.pod_sets}
                for assignment in workload.status.admission.pod_set_assignments:
                    reserved[assignment.name] = max(
                        reserved.get(assignment.name, 0), min(assignment.count or 0, asks[assignment.name])
                    )
        return reserved


def look(job: TFJob, api: Api, *pods: Pod, **facts: Any) -> Decision:
    asked = () if api.stored is None else api.stored["spec"]["podSets"]
    workload, larger, spent = api.roles
    defaults = {"flavors": FLAVORS, "asked": asked, "larger": larger, "spent": spent}
    return decide(QueueFacts(job, workload, pods, **{**defaults, **facts}), api.now)


def asked(job: TFJob) -> Api:
    """A job's Workload, waiting."""
    api = Api()
    api.carry_out(look(job, api))
    return api


def test_a_workload_has_what_kueue_needs_to_know_and_its_own_name_for_it() -> None:
    noisy = {"spec": {"containers": [{"name": "tensorflow", "env": [{"name": "A"}, {"name": "A", "value": "1"}]}]}}
    near = TEMPLATE | {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}}
    job = queued(
        {"Worker": {"replicas": 4, "template": near}, "Chief": {"template": noisy}, "PS": 1},
        enableDynamicWorker=True,
        runPolicy={"schedulingPolicy": {"minAvailable": 4}},
    )
    stored = asked(job).stored or {}
    sets = {pod_set["name"]: pod_set for pod_set in stored["spec"]["podSets"]}
    assert list(sets) == ["chief", "ps", "worker"]
    assert (sets["worker"]["count"], sets["worker"]["minCount"], sets["chief"]["count"]) == (4, 2, 1)
    index = {"podIndexLabel": "training.kubeflow.org/replica-index"}
    assert (sets["worker"]["topologyRequest"], sets["ps"]["topologyRequest"]) == (index | {"required": "rack"}, index)
    assert sets["chief"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert stored["metadata"]["name"] == "tfjob-mnist-15789", "sha1 of TFJob, kubeflow.org, mnist, job-uid by lines"
    assert stored["spec"]["queueName"] == "research"
    assert stored["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]


@pytest.mark.parametrize(
    ("job", "pods", "asks", "reason"),
    [
        (queued(), "", True, "NoWorkload"),
        (queued(suspend=True), "", False, None),
        (queued(queue=""), "", False, None),
        (queued(), "Running", False, "NoWorkload"),
        (queued(), "Succeeded", True, "NoWorkload"),
    ],
)
def test_who_asks_for_quota(job: TFJob, pods: str, asks: bool, reason: str | None) -> None:
    decision = look(job, Api(), *([make_pod("Worker-0", pods)] if pods else ()))
    assert bool(decision.writes) == asks
    assert (None if decision.gate is None else decision.gate.reason) == reason


def test_pods_get_what_was_admitted_and_the_job_stays_as_it_is() -> None:
    near = TEMPLATE | {"metadata": {"annotations": {"kueue.x-k8s.io/podset-preferred-topology": "rack"}}}
    replicas = {"PS": 1, "Worker": {"replicas": 2, "template": near}}
    job = queued(replicas, **elastic(least=1))
    api = asked(job)
    api.admit({"worker": 1})
    check = {"name": "c", "state": "Ready", "podSetUpdates": [{"name": "worker", "labels": {"slot": "7"}}]}
    api.change({"status": {"admissionChecks": [check]}})
    decision = look(job, api)
    assert decision.gate.admitted
    plan = plan_for(Observed(decision.admitted or job, services=services_of(job), gate=decision.gate))
    assert plan.created_pods == ["PS-0", "Worker-0"]
    server, worker = (creation.body for creation in plan.creations("pods"))
    assert server["spec"]["nodeSelector"] == worker["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert worker["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    labels = worker["metadata"]["labels"]
    assert (labels["slot"], labels["kueue.x-k8s.io/podset"]) == ("7", "worker")
    assert "slot" not in server["metadata"]["labels"]
    assert job == queued(replicas, **elastic(least=1))


@pytest.mark.parametrize(
    ("spec", "given", "reclaimed", "asked_again"),
    [({}, 3, 1, 2), (elastic(least=1), 2, 2, 3)],
    ids=["fixed", "elastic"],
)
def test_what_had_ended_stays_part_of_a_job_that_is_admitted_again(
    spec: dict[str, Any], given: int, reclaimed: int, asked_again: int
) -> None:
    job = queued({"PS": 1, "Worker": 3}, **spec)
    api = asked(job)
    api.admit({"worker": given})
    status = {"replicaStatuses": {"Worker": {"completedIndexes": "1"}}}
    job = msgspec.structs.replace(job, status=msgspec.convert(status, TFJobStatus))
    api.carry_out(look(job, api, make_pod("Worker-0", "Running")))
    assert api.needed()["worker"] == 3 - reclaimed
    api.set(Evicted=True)
    api.carry_out(look(job, api))
    assert api.needed()["worker"] == asked_again
    api.admit(api.needed())
    assert look(job, api).admitted.spec.tf_replica_specs[ReplicaType.WORKER].desired == 3


def test_of_a_job_that_was_changed_while_it_waits_nothing_counts_as_ended() -> None:
    job = queued({"PS": 1, "Worker": 3})
    api = asked(job)
    api.change({"status": {"reclaimablePods": [{"name": "worker", "count": 1}]}})
    smaller = queued({"PS": 1, "Worker": 2})
    for _ in range(2):
        api.carry_out(look(smaller, api))
        assert api.needed()["worker"] >= 2
    assert api.needed()["worker"] == 2


def test_an_ended_job_gives_nothing_back_while_pods_may_be_there_that_the_cache_lacks() -> None:
    api = asked(queued())
    api.admit()
    ended = msgspec.structs.replace(queued(), status=msgspec.convert({"conditions": [SUCCEEDED]}, TFJobStatus))
    assert not look(ended, api, make_pod("Worker-0", "Succeeded"), awaits_pods=True).writes
    assert look(ended, api, make_pod("Worker-0", "Succeeded")).writes


def test_what_contradicts_a_template_ends_the_workload() -> None:
    job = queued({"Worker": {"template": {"spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "hdd"}}}}})
    api = asked(job)
    api.admit()
    api.carry_out(look(job, api))
    assert api.workload.condition("Finished").reason == "FailedToStart"
    message = "disk would need both the value hdd and the value ssd"
    assert message in api.workload.condition("Finished").message


def test_another_default_image_of_parameter_servers_changes_no_job_that_has_quota() -> None:
    job = queued({"PS": {"template": None}, "Worker": 2})
    api = Api()
    api.carry_out(look(job, api, default_ps_image="tensorflow:1"))
    api.admit()
    assert look(job, api, default_ps_image="tensorflow:2").gate.admitted
    own = queued({"PS": {"template": TEMPLATE}, "Worker": 2})
    assert look(own, api, default_ps_image="tensorflow:2").gate.reason == "JobChanged"


OTHER_NODES = {"fast": msgspec.convert({"spec": {"nodeLabels": {"disk": "nvme"}}}, Flavor)}


@pytest.mark.parametrize("flavors", [{}, OTHER_NODES], ids=["deleted", "changed"])
def test_a_job_that_runs_keeps_its_pods_when_its_flavor_is_deleted_or_changed(flavors: dict[str, Flavor]) -> None:
    job = queued(
        {"Worker": {"replicas": 2, "template": {"spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}}}}
    )
    api = asked(job)
    api.admit()
    pods = [make_pod("Worker-0", "Running"), make_pod("Worker-1", "Running")]
    decision = look(job, api, *pods, flavors=flavors)
    api.carry_out(decision)
    plan = plan_for(Observed(decision.admitted or job, tuple(pods), services_of(job), gate=decision.gate))
    assert plan.deletions("pods") == []
    assert not api.workload.is_true("Finished")
    assert "is admitted by ClusterQueue big, but gets no new pods: " in plan.condition("Admitted").message
    decision = look(job, api, pods[0], flavors=flavors)
    plan = plan_for(Observed(decision.admitted or job, (pods[0],), services_of(job), gate=decision.gate))
    assert plan.created_pods == [], "a new pod would need the values of the flavor"
    assert not look(job, api, flavors=flavors).gate.admitted, "nothing of the job runs any more"


def test_kueues_own_framework_is_left_alone_and_an_administrator_can_take_its_workloads_over() -> None:
    job = queued()
    api = asked(job)
    api.change({"metadata": {"annotations": None}})
    api.set(QuotaReserved=True, Evicted=True)
    assert look(job, api) == Decision(), "made by Kueue's own framework"
    api.change({"metadata": {"annotations": {POD_SETS_ANNOTATION: ADOPTED}}})
    assert look(job, api).gate is not None


def test_nothing_in_a_job_takes_it_out_of_its_queue() -> None:
    labelled = TEMPLATE | {"metadata": {"labels": {"kueue.x-k8s.io/podset": "worker"}}}
    job = queued({"Worker": {"template": labelled}})
    assert not look(job, asked(job)).gate.admitted, "its author could write what Kueue's own framework writes"


def with_worker(**spec: Any) -> dict[str, Any]:
    """Return a job of one worker, whose container has these members, except the pod's members in `pod`."""
    pod, metadata = spec.pop("pod", {}), spec.pop("metadata", {})
    containers = [{"name": "tensorflow", "image": "x", "resources": {"requests": {"cpu": "1"}}, **spec}]
    return {"Worker": {"template": {"metadata": metadata, "spec": {"containers": containers, **pod}}}}


INJECTED = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
"""The members that Kueue's own framework writes into the template of a job that it admits with the flavor."""


def handed_over(job: TFJob, *, admitted: bool = True) -> Api:
    """The Workload of Kueue's own framework for this job, which an administrator has given to the operator."""
    api = asked(job)
    if admitted:
        api.admit()
    api.change({"metadata": {"annotations": {POD_SETS_ANNOTATION: ADOPTED}}})
    return api


@pytest.mark.parametrize(
    "now",
    [
        with_worker(resources={"requests": {"cpu": "64"}}),
        with_worker(resources={"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 8}}),
        with_worker(resources={"limits": {"cpu": 64}}),
        with_worker(resources={}),
        with_worker(resources={"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}),
        with_worker(pod={"resources": {"requests": {"cpu": "64"}}}),
        with_worker(pod={"initContainers": [{"name": "first", "image": "x", "resources": {"limits": {"cpu": "64"}}}]}),
        with_worker(pod={"nodeSelector": {"disk": "hdd"}}),
        with_worker(pod={"nodeSelector": {"gpu": "yes"}}),
        with_worker(pod={"tolerations": [{"operator": "Exists"}]}),
        with_worker(pod={"affinity": {"nodeAffinity": {"preferred": [{"weight": 1}]}}}),
        with_worker(pod={"runtimeClassName": "heavy"}),
        with_worker(pod={"nodeName": "gpu-1"}),
        with_worker(metadata={"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}),
        {**with_worker(), "PS": 1},
    ],
    ids=[
        "64 CPUs", "8 GPUs", "limits alone", "nothing asked", "a claim", "the pod as a whole", "an init container",
        "another node", "one more label of a node", "a toleration", "affinity", "a runtime class", "a chosen node",
        "a topology",
        "one more type",
    ],
)  # fmt: skip
def test_a_job_that_was_changed_before_the_operator_took_its_workload_over_is_queued_anew(now: dict[str, Any]) -> None:
    api = handed_over(queued(with_worker()))
    changed = queued(now)
    decision = look(changed, api, make_pod("Worker-0", "Running"))
    assert (decision.gate.reason, decision.writes) == ("JobChanged", ()), "its pods go first"
    api.carry_out(look(changed, api))
    assert api.stored is None


@pytest.mark.parametrize(
    ("now", "admitted"),
    [
        (with_worker(), True),
        (with_worker(), False),
        (with_worker(pod=INJECTED, metadata={"labels": {"kueue.x-k8s.io/podset": "worker"}}), True),
        (with_worker(resources={"requests": {"cpu": "1000m"}, "limits": {"cpu": 1}}), True),
        (with_worker(resources={"limits": {"cpu": 1}}), False),
        (with_worker(pod={"affinity": {}, "nodeSelector": None}, image="b", env=[{"name": "A", "value": "1"}]), True),
    ],
    ids=["as it was", "waiting", "edited by Kueue", "quantities", "a limit is a request", "what nobody counts"],
)
def test_a_workload_that_was_handed_over_gets_the_mark_of_its_job_once_and_changes_are_noticed_then(
    now: dict[str, Any], admitted: bool
) -> None:
    api, job = handed_over(queued(with_worker()), admitted=admitted), queued(now)
    before = look(job, api)
    assert before.gate.admitted == admitted
    api.carry_out(before)
    mark = api.workload.mark
    assert mark.startswith(f"{ADOPTED}-")
    assert look(job, api, asked=()).gate.admitted == admitted, "it is compared once"
    assert api.workload.mark == mark
    more = queued(with_worker(resources={"requests": {"cpu": "64"}}))
    assert look(more, api, asked=()).gate.reason == "JobChanged"


def test_a_workload_is_not_compared_without_its_flavor() -> None:
    api = handed_over(queued(with_worker()))
    decision = look(queued(with_worker()), api, flavors={})
    assert (decision.gate.reason, decision.writes) == ("FlavorUnknown", ())


def test_while_both_are_on_readiness_is_kueues_until_an_administrator_gives_the_workload_to_the_operator() -> None:
    job, pods = queued(), [make_pod(name, "Running") for name in ("PS-0", "Worker-0", "Worker-1")]
    api = asked(job)
    api.admit()
    api.set(PodsReady=True)
    assert not look(job, api, *pods).writes, "that Kueue would undo, again and again"
    api.change({"metadata": {"annotations": {POD_SETS_ANNOTATION: ADOPTED}}})
    for _ in range(2):
        api.carry_out(look(job, api, *pods))
    assert api.workload.condition("PodsReady").reason == "WaitForRecovery", "not all of them are ready"


def test_a_job_that_waited_with_kueues_framework_keeps_its_place_until_it_is_resumed() -> None:
    api = asked(queued())
    api.change({"metadata": {"annotations": {POD_SETS_ANNOTATION: ADOPTED}}})
    suspended = queued(suspend=True)
    assert not look(suspended, api).writes
    assert "Kueue" in look(queued(), api).gate.message
    api.admit()
    api.carry_out(look(suspended, api))
    assert api.stored is None, "a suspended job keeps no quota"


ANY_TIME: dict[str, list[Any]] = {
    "restartScope": ["Job", "Job", "Replica"],
    "restartPolicy": ["ExitCode", "OnFailure", "Never"],
    "backoffLimit": [1, 100],
    "cleanPodPolicy": ["All", "Running", "None"],
    "successPolicy": ["AllWorkers", ""],
    "minSucceededWorkers": [1, 2],
    "maxFailedWorkers": [0, 1],
}
"""Fields that may change at any time, that are no part of what is asked of Kueue, and some values of each."""

OF_SPEC = ("successPolicy", "minSucceededWorkers", "maxFailedWorkers")
"""The fields among them that are members of `spec`; another is a replica type's, the rest are the run policy's."""


AT_ONCE = msgspec.structs.replace(OPTIONS, restart_delay_base=0.0)


class World(RuleBasedStateMachine):
    """A job, its pods, its Workload and a quota; the operator may look at any time, and remembers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.job = queued()
        self.api = Api()
        self.pods: dict[str, Pod] = {}
        self.suspend, self.workers, self.queue, self.made = False, 2, "research", 0
        self.elastic: dict[str, Any] = {}
        self.any_time: dict[str, Any] = {}

    @initialize(fewer=st.booleans(), policy=st.sampled_from(ANY_TIME["successPolicy"]), runs=st.booleans())
    def the_job_is_submitted(self, fewer: bool, policy: str, runs: bool) -> None:
        if fewer:
            self.elastic = elastic(least=1)
        self.any_time["successPolicy"] = policy
        self.job = self.wanted()
        if runs:
            self.all_run()

    def all_run(self) -> None:
        """The job is admitted, and its pods run."""
        self.operator_looks(1)
        self.api.admit(self.api.needed())
        self.operator_looks(1)
        for name in self.pods:
            self.change_pod(name, phase="Running")
        self.operator_looks(1)

    def change_job(self, **fields: Any) -> None:
        """Somebody changes fields that are in `ANY_TIME`."""
        self.any_time |= fields
        self.job = msgspec.structs.replace(self.wanted(), status=self.job.status)

    def wanted(self) -> TFJob:
        policy = self.any_time.get("restartPolicy", "ExitCode")
        replicas = {kind: {"replicas": size, "restartPolicy": policy} for kind, size in self.sizes().items()}
        spec = {name: value for name, value in self.any_time.items() if name in OF_SPEC}
        run_policy = {name: value for name, value in self.any_time.items() if name not in (*spec, "restartPolicy")}
        run_policy |= self.elastic.get("runPolicy", {})
        spec |= {name: value for name, value in self.elastic.items() if name != "runPolicy"}
        return queued(replicas, queue=self.queue, suspend=self.suspend, runPolicy=run_policy, **spec)

    def sizes(self) -> dict[str, int]:
        return {"PS": 1, "Worker": self.workers}

    @rule(times=st.integers(1, 3))
    def operator_looks(self, times: int) -> None:
        for _ in range(times):
            decision = look(self.job, self.api, *self.pods.values())
            self.api.carry_out(decision)
            if decision.admitted is not None and not self.elastic:
                specs, given = self.job.spec.tf_replica_specs, decision.admitted.spec.tf_replica_specs
                assert {kind: spec and spec.desired for kind, spec in given.items()} == {
                    kind: spec and spec.desired for kind, spec in specs.items()
                }
            observed = Observed(
                decision.admitted or self.job, tuple(self.pods.values()), services_of(self.job), gate=decision.gate
            )
            plan = plan_for(observed, self.api.now, AT_ONCE)
            self.job = msgspec.structs.replace(self.job, status=plan.status)
            for deletion in plan.deletions("pods"):
                self.delete_pod(deletion.name)
            for creation in [action for action in plan.actions if isinstance(action, Create) and action.kind == "pods"]:
                assert creation.name not in self.pods
                kind, index = creation.replica or ("", 0)
                self.made += 1
                annotations = creation.body["metadata"]["annotations"]
                counts = annotations.get(ANNOTATION_JOB_RESTARTS, "0")
                pod = make_pod(f"{kind}-{index}", "Pending", uid=f"pod-{self.made}", job_restarts=int(counts))
                annotations = {**pod.metadata.annotations, **annotations}
                metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
                self.pods[creation.name] = msgspec.structs.replace(pod, metadata=metadata)

    def delete_pod(self, name: str) -> None:
        """Delete a pod: an ended pod is gone at once, a pod that runs is gone when its kubelet reports it."""
        if occupies(self.pods[name]):
            self.change_pod(name, deleted=True)
        else:
            del self.pods[name]

    def change_pod(self, name: str, *, deleted: bool = False, phase: str = "", code: int | None = None) -> None:
        pod = self.pods[name]
        meta, status = pod.metadata, pod.status
        if deleted or meta.deletion_timestamp is not None:
            meta = msgspec.structs.replace(meta, deletion_timestamp=NOW)
        if phase:
            replica = replica_of(meta.labels)
            status = make_pod(f"{replica[0]}-{replica[1]}", phase, exit_code=code).status
        self.pods[name] = msgspec.structs.replace(pod, metadata=meta, status=status)

    @rule(data=st.data(), end=st.sampled_from([None, 0, 0, 1, 143, 143]), looks=st.booleans())
    def kubelet(self, data: st.DataObject, end: int | None, looks: bool) -> None:
        alive = [name for name, pod in self.pods.items() if occupies(pod) and not is_probe(pod.metadata.annotations)]
        phase = "Running" if end is None else "Failed" if end else "Succeeded"
        if alive:
            self.change_pod(data.draw(st.sampled_from(alive)), phase=phase, code=end)
        if looks:
            self.operator_looks(2)

    @rule(data=st.data())
    def somebody_deletes_a_pod(self, data: st.DataObject) -> None:
        if self.pods:
            self.delete_pod(data.draw(st.sampled_from(list(self.pods))))

    @rule(data=st.data())
    def a_deleted_pod_is_gone(self, data: st.DataObject) -> None:
        going = [name for name, pod in self.pods.items() if pod.metadata.deletion_timestamp is not None]
        if going:
            del self.pods[data.draw(st.sampled_from(going))]

    @precondition(lambda self: self.api.workload is not None)
    @rule(less=st.booleans())
    def kueue_admits(self, less: bool) -> None:
        workload = self.api.workload
        if (
            not (workload.is_true("QuotaReserved") or workload.is_true("Finished"))
            and workload.spec.active is not False
        ):
            least = {
                pod_set.name: pod_set.min_count for pod_set in workload.spec.pod_sets if pod_set.min_count is not None
            }
            counts = self.api.needed()
            # Fewer only where that was asked for, and never more than are still to run.
            self.api.admit(counts | {name: min(counts[name], minimum) for name, minimum in least.items() if less})

    @precondition(lambda self: self.api.workload is not None and self.api.workload.is_true("QuotaReserved"))
    @rule()
    def kueue_evicts(self) -> None:
        self.api.set(Evicted=True)

    @precondition(lambda self: self.api.stored is not None)
    @rule()
    def somebody_deletes_the_workload(self) -> None:
        self.api.delete()

    @rule(what=st.sampled_from(["suspend", "workers", "queue"]))
    def the_user_changes_the_job(self, what: str) -> None:
        self.suspend ^= what == "suspend"
        self.workers = 5 - self.workers if what == "workers" else self.workers
        self.queue = "other" if what == "queue" else self.queue
        self.job = msgspec.structs.replace(self.wanted(), status=self.job.status)

    @rule(data=st.data(), name=st.sampled_from([*ANY_TIME, *["restartScope"] * 6]))
    def the_user_changes_what_no_quota_depends_on(self, data: st.DataObject, name: str) -> None:
        self.change_job(**{name: data.draw(st.sampled_from(ANY_TIME[name]))})

    @invariant()
    def quota_is_never_overdrawn(self) -> None:
        quota, busy = self.api.quota(), Counter[str]()
        for pod in filter(occupies, self.pods.values()):
            replica = replica_of(pod.metadata.labels)
            busy[replica[0].lower()] += 1
        assert all(count <= quota.get(name, 0) for name, count in busy.items()), (busy, quota, self.api.stored)


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


class ElasticWorld(World):
    """The same with an elastic job, whose workers find room or not."""

    @initialize()
    def the_job_is_elastic(self) -> None:
        policy = {"minReplicas": 1, "maxReplicas": 3, "shrinkAfterSeconds": 0, "growAfterSeconds": 0}
        self.elastic = {"elasticPolicy": policy}
        self.job = self.wanted()

    def sizes(self) -> dict[str, int]:
        return {"Worker": self.workers}

    def change_job(self, **fields: Any) -> None:
        super().change_job(**{name: value for name, value in fields.items() if name != "restartScope"})

    @rule(data=st.data(), looks=st.booleans())
    def a_scheduler_finds_no_room(self, data: st.DataObject, looks: bool) -> None:
        waiting = [name for name, pod in self.pods.items() if pod.status.phase == "Pending"]
        if waiting:
            self.refuse(data.draw(st.sampled_from(waiting)))
        if looks:
            self.operator_looks(2)

    @rule(data=st.data(), looks=st.booleans())
    def a_scheduler_finds_room(self, data: st.DataObject, looks: bool) -> None:
        waiting = [name for name, pod in self.pods.items() if pod.status.phase == "Pending"]
        if waiting:
            self.place(data.draw(st.sampled_from(waiting)))
        if looks:
            self.operator_looks(2)

    @rule(seconds=st.sampled_from([1, 40]))
    def time_passes(self, seconds: int) -> None:
        self.api.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.api.roles.larger is not None)
    @rule(finishes=st.booleans())
    def kueue_admits_more_workers(self, finishes: bool) -> None:
        larger = self.api.roles.larger
        if larger.is_true("QuotaReserved") or larger.metadata.deletion_timestamp is not None:
            return
        self.api.admit(name=larger.metadata.name)
        if finishes:
            self.api.finish_replaced()

    @rule()
    def kueue_finishes_what_is_replaced(self) -> None:
        self.api.finish_replaced()

    @precondition(lambda self: self.api.roles.larger is not None)
    @rule(what=st.sampled_from(["refused", "deleted", "evicted"]))
    def the_larger_workload_is(self, what: str) -> None:
        name = self.api.roles.larger.metadata.name
        if what == "deleted":
            self.api.delete(name)
        elif what == "refused":
            self.api.set(name, QuotaReserved=False)
        elif self.api.roles.larger.is_true("QuotaReserved"):
            self.api.set(name, Evicted=True)

    def place(self, name: str) -> None:
        self.pods[name] = bound(self.pods[name])

    def refuse(self, name: str) -> None:
        self.pods[name] = unschedulable(self.pods[name])


TestElasticWorld = ElasticWorld.TestCase
TestElasticWorld.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


def test_an_elastic_job_gives_the_quota_of_workers_without_room_back_when_their_pods_are_gone() -> None:
    world = ElasticWorld()
    world.workers = 3
    world.the_job_is_elastic()
    world.operator_looks(1)
    (asked_for,) = world.api.stored["spec"]["podSets"]
    assert (asked_for["count"], asked_for["minCount"]) == (3, 1)
    world.api.admit(world.api.needed())
    world.operator_looks(1)
    for name in ("mnist-worker-0", "mnist-worker-1"):
        world.change_pod(name, phase="Running")
    world.refuse("mnist-worker-2")
    world.operator_looks(1)
    assert world.job.status.elastic.workers == 2
    world.operator_looks(1)
    assert world.api.quota() == {"worker": 3}, "the old pods are still there"
    world.pods.clear()
    world.operator_looks(2)
    assert world.api.quota() == {"worker": 2}
    assert sorted(world.pods) == ["mnist-worker-0", "mnist-worker-1"]
    for name in world.pods:
        world.change_pod(name, phase="Running")
    world.operator_looks(3)
    assert len(world.pods) == 2, "it does not grow beyond its quota"
    assert world.api.made == 1, "and it is not queued anew"


def shrunk(workers: int, size: int, **policy: int) -> ElasticWorld:
    """A job with quota for so many workers, which has become smaller because of missing machines."""
    world = ElasticWorld()
    world.workers = workers
    world.the_job_is_elastic()
    world.elastic["elasticPolicy"] |= {"maxReplicas": workers, **policy}
    world.job = world.wanted()
    world.operator_looks(1)
    world.api.admit(world.api.needed())
    world.operator_looks(1)
    for index in range(workers):
        name = f"mnist-worker-{index}"
        world.change_pod(name, phase="Running") if index < size else world.refuse(name)
    for seconds in (0, 61):
        world.api.now += timedelta(seconds=seconds)
        world.operator_looks(2)
    world.pods.clear()
    world.operator_looks(2)
    run(world)
    assert (world.job.status.elastic.workers, world.api.quota()) == (size, {"worker": size})
    return world


def run(world: ElasticWorld) -> None:
    """All pods of the job that are no probes run, and those that were deleted are gone."""
    for _ in range(3):
        world.pods = {name: pod for name, pod in world.pods.items() if pod.metadata.deletion_timestamp is None}
        for name in [name for name, pod in world.pods.items() if not is_probe(pod.metadata.annotations)]:
            world.place(name)
            world.change_pod(name, phase="Running")
        world.operator_looks(1)
        world.quota_is_never_overdrawn()


def test_an_elastic_job_asks_for_more_workers_by_a_second_workload_and_keeps_its_own_until_that_has_quota() -> None:
    world = shrunk(3, 2, shrinkAfterSeconds=60, growAfterSeconds=600)
    api, first = world.api, world.api.workload
    api.now += timedelta(seconds=500)
    decision = look(world.job, api, *world.pods.values())
    assert (api.made_larger, decision.look_again) == (0, 100)
    api.now += timedelta(seconds=101)
    world.operator_looks(3)
    larger = api.roles.larger
    assert (api.made_larger, larger.replaces) == (1, f"ns/{first.metadata.name}")
    assert [(pod_set.count, pod_set.min_count) for pod_set in larger.spec.pod_sets] == [(3, None)]
    assert len(world.pods) == 2
    assert world.job.status.elastic.workers == 2
    api.admit(name=larger.metadata.name)
    world.operator_looks(1)
    assert [workload.metadata.uid for workload in api.workloads] == [larger.metadata.uid], "the first is let go"
    world.operator_looks(1)
    assert is_probe(world.pods["mnist-worker-2"].metadata.annotations)
    world.place("mnist-worker-2")
    world.operator_looks(1)
    run(world)
    assert (world.job.status.elastic.workers, api.quota(), len(world.pods)) == (3, {"worker": 3}, 3)
    assert (api.made, api.made_larger) == (1, 1)
    api.set(Evicted=True)
    run(world)
    world.operator_looks(2)
    assert [(pod_set.count, pod_set.min_count) for pod_set in api.workload.spec.pod_sets] == [(3, 1)], (
        "fewer are enough again"
    )
    assert not api.workload.replaces


def test_a_preempted_job_that_kueue_admits_in_part_reports_the_change_and_asks_for_the_whole_number_as_before() -> None:
    world = shrunk(3, 2, shrinkAfterSeconds=60, growAfterSeconds=600)
    asked, changes = world.api.stored["spec"]["podSets"], world.job.status.elastic.changes
    world.api.set(Evicted=True)
    run(world)
    world.operator_looks(2)
    assert (world.pods, world.api.quota(), world.job.status.elastic.workers_before) == ({}, {}, 2)
    world.api.admit({"worker": 1})
    run(world)
    elastic = world.job.status.elastic
    assert (elastic.workers, elastic.wanted, elastic.changes, elastic.workers_before) == (1, 3, changes + 1, 0)
    assert [(resize.before, resize.workers) for resize in elastic.resizes[-1:]] == [(2, 1)]
    assert elastic.reason == "Kueue admitted 1 of the 3 requested workers"
    assert (world.api.quota(), sorted(world.pods)) == ({"worker": 1}, ["mnist-worker-0"])
    assert (world.api.stored["spec"]["podSets"], world.api.made) == (asked, 1)


def test_a_job_for_which_kueue_has_no_room_asks_for_fewer_more_workers() -> None:
    world = shrunk(8, 2, shrinkAfterSeconds=60, growAfterSeconds=0)
    asked = []
    for _ in range(5):
        world.operator_looks(2)
        asked.append(world.api.roles.larger.spec.pod_sets[0].count)
        world.api.set(world.api.roles.larger.metadata.name, QuotaReserved=False)
    assert asked == [8, 5, 3, 3, 3]
    assert world.api.made_larger == 1


def test_a_job_that_finds_no_machine_for_its_new_quota_gives_it_back_and_asks_later() -> None:
    world = shrunk(3, 2, shrinkAfterSeconds=60, growAfterSeconds=600)
    world.api.now += timedelta(seconds=600)
    world.operator_looks(2)
    world.api.admit(name=world.api.roles.larger.metadata.name)
    world.operator_looks(2)
    world.refuse("mnist-worker-2")
    assert look(world.job, world.api, *world.pods.values()).look_again == 60
    world.api.now += timedelta(seconds=61)
    run(world)
    assert (world.api.quota(), sorted(world.pods)) == ({"worker": 2}, ["mnist-worker-0", "mnist-worker-1"])
    assert (world.api.made_larger, world.api.roles.larger) == (1, None)
    world.api.now += timedelta(seconds=600)
    world.operator_looks(2)
    assert world.api.made_larger == 2


@pytest.mark.parametrize("how", ["suspended", "evicted", "its Workload is deleted", "ended", "another queue"])
def test_a_job_that_gives_its_quota_up_gives_the_second_workload_up_first(how: str) -> None:
    world = shrunk(3, 2, shrinkAfterSeconds=60, growAfterSeconds=0)
    world.operator_looks(2)
    larger = world.api.roles.larger.metadata.name
    if how == "suspended":
        world.suspend = True
        world.change_job()
    elif how == "evicted":
        world.api.set(Evicted=True)
    elif how == "its Workload is deleted":
        world.api.delete()
    elif how == "another queue":
        world.queue = "other"
        world.change_job()
    else:
        for name in world.pods:
            world.change_pod(name, phase="Succeeded", code=0)
    world.operator_looks(1)
    names = [workload.metadata.name for workload in world.api.workloads]
    assert larger not in names or how == "ended"
    run(world)
    world.operator_looks(2)
    assert larger not in [workload.metadata.name for workload in world.api.workloads]


def test_a_second_workload_that_somebody_deletes_is_let_go_and_asked_for_again() -> None:
    world = shrunk(3, 2, shrinkAfterSeconds=60, growAfterSeconds=0)
    world.operator_looks(2)
    first = world.api.roles.larger.metadata.uid
    world.api.delete(world.api.roles.larger.metadata.name)
    assert world.api.roles.larger.metadata.uid == first, "its finalizer keeps it"
    world.operator_looks(2)
    assert world.api.roles.larger.metadata.uid != first
    assert world.api.made_larger == 2


@pytest.mark.parametrize("what", ["a check", "places", "a limit of time", "a worker has completed", "pods that leave"])
def test_a_job_asks_for_no_second_workload_that_could_cost_it_its_quota(what: str) -> None:
    world = shrunk(3, 2, shrinkAfterSeconds=60, growAfterSeconds=0)
    api, workload = world.api, world.api.workload
    assert wish(world.job, workload, 2, api.now).workers == 3
    replace, status = msgspec.structs.replace, workload.status
    quota = 2
    if what == "a check":
        workload = replace(workload, status=replace(status, admission_checks=(AdmissionCheck("budget", "Ready"),)))
    elif what == "places":
        sets = tuple(replace(assignment, topology_assignment={}) for assignment in status.admission.pod_set_assignments)
        admission = replace(status.admission, pod_set_assignments=sets)
        workload = replace(workload, status=replace(status, admission=admission))
    elif what == "a limit of time":
        workload = replace(workload, spec=replace(workload.spec, maximum_execution_time_seconds=60))
    elif what == "a worker has completed":
        statuses = msgspec.convert({"replicaStatuses": {"Worker": {"completedIndexes": "1"}}}, TFJobStatus)
        changed = replace(world.job.status, replica_statuses=statuses.replica_statuses)
        world.job = replace(world.job, status=changed)
    else:
        quota = 1
    assert wish(world.job, workload, quota, api.now).workers == 0


def test_a_scaled_elastic_job_keeps_its_quota_and_asks_for_more_or_gives_back() -> None:
    world = shrunk(3, 2, shrinkAfterSeconds=60, growAfterSeconds=600)
    first = world.api.workload.metadata.uid
    world.workers = 1
    world.change_job()
    world.operator_looks(2)
    run(world)
    world.operator_looks(2)
    assert (world.job.status.elastic.workers, world.api.quota(), world.api.made) == (1, {"worker": 1}, 1)
    world.workers = 2
    world.change_job()
    world.api.now += timedelta(seconds=601)
    world.operator_looks(2)
    assert [pod_set.count for pod_set in world.api.roles.larger.spec.pod_sets] == [2]
    assert world.api.workload.metadata.uid == first


def test_a_workload_that_was_replaced_by_one_that_is_gone_makes_room_for_a_new_one() -> None:
    world = shrunk(3, 2, shrinkAfterSeconds=60, growAfterSeconds=0)
    world.operator_looks(2)
    larger = world.api.roles.larger.metadata.name
    world.api.admit(name=larger)
    world.api.finish_replaced()
    world.api.change({"metadata": {"finalizers": None}}, larger)
    world.api.delete(larger)
    assert world.api.workload.is_true("Finished")
    world.operator_looks(1)
    world.pods.clear()
    world.operator_looks(2)
    assert (world.pods, world.api.made) == ({}, 2)


@pytest.mark.parametrize("how", ["a server fails", "all pods are gone", "suspended for a moment"])
def test_replicas_that_gave_their_quota_back_start_again_when_the_job_has_all_its_quota_again(how: str) -> None:
    world = World()
    world.change_job(successPolicy="AllWorkers")
    world.all_run()
    world.change_pod("mnist-worker-1", phase="Succeeded", code=0)
    world.operator_looks(2)
    assert world.api.quota() == {"ps": 1, "worker": 1}
    world.change_job(restartScope="Job")
    world.operator_looks(2)
    assert len(world.pods) == 3, "the change alone stops nothing"
    if how == "a server fails":
        world.change_pod("mnist-ps-0", phase="Failed", code=143)
    elif how == "all pods are gone":
        world.pods.clear()
    else:
        world.suspend = True
        world.change_job()
        world.operator_looks(1)
        world.suspend = False
        world.change_job()
    for _ in range(6):
        world.operator_looks(1)
        world.quota_is_never_overdrawn()
        world.pods = {name: pod for name, pod in world.pods.items() if pod.metadata.deletion_timestamp is None}
    assert (world.pods, world.api.quota(), world.api.made) == ({}, {}, 2), "queued anew, with all of its replicas"
    assert world.api.needed() == {"ps": 1, "worker": 2}
    assert world.job.status.job_restarts == (0 if how == "suspended for a moment" else 1)
    world.api.admit(world.api.needed())
    world.operator_looks(1)
    assert len(world.pods) == 3


def test_the_workload_of_an_ended_job_is_finished_with_the_last_pod_and_then_let_go() -> None:
    job = queued()
    api, ended = asked(job), with_status(job, msgspec.convert({"conditions": [SUCCEEDED]}, TFJobStatus))
    api.admit()
    api.carry_out(look(ended, api, make_pod("Worker-0")))
    assert not api.workload.is_true("Finished")
    api.carry_out(look(ended, api))
    finished = api.workload.condition("Finished")
    assert (finished.status, finished.reason) == ("True", "Succeeded")
    assert api.workload.metadata.finalizers == (IN_USE,)
    api.carry_out(look(ended, api))
    assert api.workload.metadata.finalizers == ()


def test_a_deleted_workload_of_an_ended_job_goes_with_the_last_pod() -> None:
    job = queued()
    api, ended = asked(job), with_status(job, msgspec.convert({"conditions": [SUCCEEDED]}, TFJobStatus))
    api.admit()
    api.delete()
    assert look(ended, api, make_pod("Worker-0")).writes == ()
    api.carry_out(look(ended, api))
    assert api.stored is None


def test_a_job_that_got_less_than_it_asked_for_has_quota_for_that_and_no_more() -> None:
    job = queued(**elastic(least=1))
    api = asked(job)
    api.admit({"worker": 1})
    assert look(job, api).gate.quota == {"ps": 1, "worker": 1}


def test_quota_that_was_given_back_by_a_write_that_the_cache_does_not_show_counts() -> None:
    job = with_status(
        queued({"PS": 1, "Worker": 3}, runPolicy={"restartScope": "Job"}),
        msgspec.convert({"replicaStatuses": {"Worker": {"completedIndexes": "1"}}}, TFJobStatus),
    )
    api = asked(job)
    api.admit()
    assert look(job, api).gate.quota == {"ps": 1, "worker": 3}
    assert look(job, api, given_back={"worker": 1}).gate.quota == {"ps": 1, "worker": 2}
    assert look(job, api, given_back={"worker": 2}).gate.reason == "QuotaGivenBack"


# Differences in the plan of a job that is in a queue.


def uncounted_messages(plan: ReadablePlan) -> list[str]:
    return [event.message for event in plan.events if event.reason == "NotCountedByQueue"]


def test_what_no_quota_counts_is_told_when_the_job_is_made_and_when_it_is_admitted() -> None:
    observed = Observed(queued({"Worker": 1}, suspend=True), uncounted_types=("worker", "ps"))
    first = plan_for(observed)
    assert uncounted_messages(first) == [
        "queue research doesn't count the pods of worker, ps, which run without quota: Kueue knows these types "
        "only by the names Worker, PS."
    ]
    waits = with_status(queued({"Worker": 1}, suspend=True), first.status)
    assert uncounted_messages(plan_for(msgspec.structs.replace(observed, job=waits))) == []
    admitted = with_status(queued({"Worker": 1}), first.status)
    result = plan_for(msgspec.structs.replace(observed, job=admitted))
    assert len(uncounted_messages(result)) == 1
    runs = with_status(admitted, result.status)
    assert uncounted_messages(plan_for(msgspec.structs.replace(observed, job=runs))) == []


def test_a_tensorboard_goes_when_the_job_is_preempted_and_comes_back_with_it() -> None:
    objects = Objects()
    runs = queued({"Worker": 1}, tensorBoard=BOARD)
    assert objects.plan(queued({"Worker": 1}, suspend=True, tensorBoard=BOARD)).tensorboard_actions == (), (
        "nothing is made before it is admitted"
    )
    objects.carry_out_all(objects.plan(runs).tensorboard_actions, available=1)
    preempted = objects.plan(queued({"Worker": 1}, suspend=True, tensorBoard=BOARD))
    assert [(type(action).__name__, action.kind) for action in preempted.tensorboard_actions] == [
        ("Delete", "deployments")
    ]
    objects.carry_out_all(preempted.tensorboard_actions)
    again = objects.plan(queued({"Worker": 1}, suspend=True, tensorBoard=BOARD))
    assert again.tensorboard_actions == ()
    assert again.status.tensor_board is not None, "its address stays"
    assert not again.status.tensor_board.ready
    objects.carry_out_all(objects.plan(runs).tensorboard_actions)
    assert (set(objects.deployments), set(objects.services)) == ({NAME}, {NAME})
