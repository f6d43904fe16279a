from typing import Any

import pytest

from tests.unit.api.migration.samples import EXAMPLES, NOW, example, job, pod, standing
from tfoperator.api.migration.findings import Effort, Finding
from tfoperator.api.migration.jobs import job_findings, owned
from tfoperator.kube.views.objects import Pod

POLICY = "spec.runPolicy."


def findings_of(obj: dict[str, Any], *pods: Pod) -> dict[str, Finding]:
    findings = job_findings(obj, pods, NOW)
    by_field = {finding.field: finding for finding in findings}
    assert len(by_field) == len(findings), "each field is told of once"
    return by_field


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_nothing_has_to_be_done_for_the_go_operators_own_examples(name: str) -> None:
    assert Effort.ACTION not in {finding.effort for finding in job_findings(example(name), None, NOW)}


def test_the_examples_are_told_what_their_defaults_mean_here() -> None:
    assert set(findings_of(example("dist-mnist.yaml"))) == {
        "spec.tfReplicaSpecs[Chief].restartPolicy",
        "spec.runPolicy.cleanPodPolicy",
    }
    assert set(findings_of(example("two-workers.yaml"))) == {"spec.runPolicy.cleanPodPolicy"}
    assert set(findings_of(example("multi-worker.yaml"))) == {"spec.tfReplicaSpecs[Worker].restartPolicy"}


NEW: tuple[str, dict[str, float]] = ("", {})
RUNS: tuple[str, dict[str, float]] = ("Running", {"seconds": 0})


@pytest.mark.parametrize(
    ("policy", "state", "pods", "effort"),
    [
        ({"backoffLimit": 3}, NEW, [], Effort.CHANGE),
        ({"backoffLimit": 3}, RUNS, [pod("a", "Running", 3)], Effort.CHANGE),
        ({"backoffLimit": 3}, RUNS, [pod("a", "Running", 4)], Effort.ACTION),
        ({"activeDeadlineSeconds": 60}, NEW, [], Effort.CHANGE),
        ({"activeDeadlineSeconds": 60}, ("Running", {"seconds": 59}), [], Effort.CHANGE),
        ({"activeDeadlineSeconds": 60}, ("Running", {"seconds": 60}), [], Effort.ACTION),
        ({"ttlSecondsAfterFinished": 60}, ("Succeeded", {"minutes": 2}), [], Effort.ACTION),
        ({"cleanPodPolicy": None}, ("Failed", {}), [pod("a", "Running")], Effort.ACTION),
        ({"schedulingPolicy": {"priorityClass": "system-node-critical"}}, NEW, [], Effort.ACTION),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, NEW, [], Effort.NOTE),
    ],
)
def test_a_field_that_means_something_else_here(
    policy: dict[str, Any], state: tuple[str, dict[str, float]], pods: list[Pod], effort: Effort
) -> None:
    condition, since = state
    obj = standing(job(policy=policy), condition, **since) if condition else job(policy=policy)
    [field] = policy
    below = ".priorityClass" if field == "schedulingPolicy" else ""
    assert findings_of(obj, *pods)[POLICY + field + below].effort is effort


@pytest.mark.parametrize("state", ["", "Running", "Succeeded"])
def test_plain_sidecars_end_with_the_program_here(state: str) -> None:
    obj = job()
    spec = next(iter(obj["spec"]["tfReplicaSpecs"].values()))["template"]["spec"]
    spec["initContainers"] = [{"name": "native", "image": "x", "restartPolicy": "Always"}]
    spec["containers"] += [{"name": "proxy", "image": "x"}, {"name": "shipper", "image": "x"}]
    findings = [
        finding
        for field, finding in findings_of(standing(obj, state) if state else obj).items()
        if "containers" in field
    ]
    assert [finding.effort for finding in findings] == ([] if state == "Succeeded" else [Effort.CHANGE])
    assert all("proxy, shipper" in finding.message and "native" not in finding.message for finding in findings)


@pytest.mark.parametrize(
    "obj",
    [
        standing(job(policy={"backoffLimit": 0, "activeDeadlineSeconds": 1}), "Succeeded", hours=1),
        standing(job(policy={"cleanPodPolicy": None}), "Succeeded", hours=1),
        standing(job(policy={"ttlSecondsAfterFinished": 7200}), "Failed", hours=1),
        job(policy={"ttlSecondsAfterFinished": 60}),
        job(),
    ],
    ids=["ended", "ended without pods that run", "time to live not over", "not ended", "nothing changes"],
)
def test_what_has_no_effect_is_not_told(obj: dict[str, Any]) -> None:
    assert findings_of(obj, pod("a", "Succeeded", 5)) == {}


def test_policies_in_the_spec_are_to_be_moved_by_one_command() -> None:
    obj = job(policy={"cleanPodPolicy": None}, cleanPodPolicy="All", backoffLimit=2)
    findings = findings_of(obj)
    actions = {field: finding for field, finding in findings.items() if finding.effort is Effort.ACTION}
    assert list(actions) == ["spec.cleanPodPolicy", "spec.backoffLimit"]
    command = actions["spec.cleanPodPolicy"].todo
    assert "kubectl get tfjobs.v1.kubeflow.org mnist -n team -o yaml | tfoperator convert - > mnist.yaml" in command
    assert actions["spec.backoffLimit"].todo == ""
    assert "spec.runPolicy.cleanPodPolicy" not in findings, "it is set, once it has been moved"
    obj["metadata"]["name"] = "$(reboot)"
    assert " '$(reboot)' -n team" in findings_of(obj)["spec.cleanPodPolicy"].todo
    del obj["metadata"]["uid"]
    assert findings_of(obj)["spec.cleanPodPolicy"].todo == "move the fields: tfoperator convert FILE"


def test_metadata_of_a_wrong_type_is_a_finding() -> None:
    obj = job()
    obj["metadata"]["uid"] = 7
    assert findings_of(obj)["metadata.uid"].effort is Effort.ACTION


UNSET: dict[str, Any] = {"cleanPodPolicy": None}


@pytest.mark.parametrize(
    ("ended", "pods", "text"),
    [
        ("Failed", [pod("a", "Running"), pod("b", "Running", kind="ps"), pod("c", "Succeeded")], "2 of its pods"),
        ("Succeeded", [pod("a", "Running"), pod("b", "Running", kind="ps")], "(b)"),
        ("Succeeded", [pod("a", "Pending"), pod("b", "Running", kind="evaluator")], "(a)"),
        ("Succeeded", [pod("a", "Running"), pod("b", "Running", kind="evaluator")], ""),
    ],
    ids=["failed", "parameter server", "not begun", "finish in peace"],
)
def test_what_still_runs_of_an_ended_job_is_stopped_as_its_end_was(ended: str, pods: list[Pod], text: str) -> None:
    findings = findings_of(standing(job(policy=UNSET), ended), *pods)
    assert set(findings) == ({"spec.runPolicy.cleanPodPolicy"} if text else set())
    assert all(text in finding.message and finding.effort is Effort.ACTION for finding in findings.values())


def test_of_a_job_that_goes_on_it_is_told_what_each_end_would_stop_and_to_leave_it_alone_meanwhile() -> None:
    findings = findings_of(standing(job(policy=UNSET), "Running"))
    assert findings["status"].effort is Effort.NOTE
    assert "after a failure" in findings["spec.runPolicy.cleanPodPolicy"].message
    assert "parameter servers" in findings["spec.runPolicy.cleanPodPolicy"].message


def test_a_job_in_a_queue_of_others_or_of_an_older_version_is_told_of_that_alone() -> None:
    queued = job()
    queued["metadata"] = {**queued["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "research"}}
    [(field, finding)] = findings_of(queued).items()
    assert (field, finding.effort) == ("metadata.labels[kueue.x-k8s.io/queue-name]", Effort.NOTE)
    assert "--kueue" in finding.todo
    assert findings_of(standing(queued, "Succeeded", hours=1)) == {}
    obj = job(policy={"managedBy": "kueue.x-k8s.io/multikueue", "backoffLimit": 1}, restart="Never")
    assert set(findings_of(obj)) == {"spec.runPolicy.managedBy"}
    obj = {**job(), "apiVersion": "kubeflow.org/v1alpha2"}
    assert "tfoperator convert" in findings_of(obj)["apiVersion"].todo


def test_what_is_refused_here_needs_a_hand_and_what_is_ignored_does_not() -> None:
    obj = job(sucessPolicy="AllWorkers", restart="Sometimes")
    findings = findings_of(obj)
    assert findings["spec.sucessPolicy"].effort is Effort.CHANGE
    assert "did you mean" in findings["spec.sucessPolicy"].message
    assert findings["spec.tfReplicaSpecs[Worker].restartPolicy"].effort is Effort.ACTION


@pytest.mark.parametrize("spec", [None, [], "x", {"tfReplicaSpecs": None}, {"tfReplicaSpecs": {"Worker": None}}])
def test_a_job_that_makes_no_sense_is_told_of_and_stops_nobody(spec: Any) -> None:
    assert Effort.ACTION in {finding.effort for finding in job_findings({**job(), "spec": spec}, None, NOW)}


def test_pods_belong_to_what_controls_them() -> None:
    assert [owned_pod.metadata.name for owned_pod in owned([pod("a", "Running"), Pod()])["uid-1"]] == ["a"]
