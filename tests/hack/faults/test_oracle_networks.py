"""The oracle's judgement of `spec.network`: pods, services, TF_CONFIG and the record in the status have to agree."""

import json
from typing import Any

import pytest

from tests.hack.faults.story import Story

ACTIVE = {"active": 1, "startedIndexes": "0"}
DONE = {"succeeded": 1, "completedIndexes": "0"}


def pod_spec(name: str = "job-worker-0", *, subdomain: str = "job", host: str = "job-worker-0.job.ns.svc:2222") -> Any:
    config = {"cluster": {"worker": [host]}, "task": {"type": "worker", "index": 0}}
    env = [{"name": "TF_CONFIG", "value": json.dumps(config)}]
    names = {"hostname": name, "subdomain": subdomain} if subdomain else {}
    return {**names, "containers": [{"name": "tensorflow", "env": env}]}


def per_job(network: str | None = "PerJob", *, recorded: bool = True, **spec: Any) -> Story:
    """A job of one worker that runs."""
    asked = {"network": network} if network else {}
    story = Story("OnFailure", {**asked, **spec}, Worker=1).job_service()
    story.pod("worker-0", "worker-0", phase="Running", spec=pod_spec()).status("Running", "Ready", Worker=ACTIVE)
    return story.report("j", network="PerJob") if recorded else story


@pytest.mark.parametrize("service", ["job", "other"])
def test_hosts_that_are_said_in_short_are_read_as_the_kubelet_does(service: str) -> None:
    spec = pod_spec()
    config = {"cluster": {"worker": ["job-worker-0$(_)1$(_)2.job.ns.svc:2222"]}}
    between = f'.{service}.ns.svc:2222", "job-worker-'
    spec["containers"][0]["env"] = [{"name": "_", "value": between}, {"name": "TF_CONFIG", "value": json.dumps(config)}]
    complaints = Story("OnFailure", {"network": "PerJob"}).job_service().pod("worker-0", "w", spec=spec).never()
    assert any("names job-worker-0.other.ns.svc:2222" in complaint for complaint in complaints) is (service == "other")


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            pod_spec(subdomain="", host="job-worker-0.ns.svc:2222"),
            "is of network PerReplica, and the job asks for PerJob",
        ),
        (pod_spec("other"), "pod job-worker-0 is 'other' in 'job'"),
        (pod_spec(subdomain="other", host="job-worker-0.other.ns.svc:2222"), "is 'job-worker-0' in 'other'"),
        (pod_spec(host="job-worker-0.ns.svc:2222"), "names job-worker-0.ns.svc:2222"),
        (pod_spec(host="job-worker-0.job.ns:2222"), "names job-worker-0.job.ns:2222"),
    ],
)
def test_a_pod_with_names_of_something_else_is_wrong(spec: Any, complaint: str) -> None:
    story = Story("OnFailure", {"network": "PerJob"}).job_service().pod("worker-0", "w", spec=spec)
    assert any(complaint in violation for violation in story.never()), story.never()


def test_a_pod_that_is_told_of_hosts_in_a_service_that_is_not_there_is_wrong() -> None:
    story = Story().running("worker-0").take("worker-0").pod("worker-0", "w", spec=pod_spec(subdomain=""))
    assert [violation for violation in story.never() if "names job-worker-0.job.ns.svc:2222" in violation]


def test_what_was_started_with_one_network_never_gets_the_other() -> None:
    complaint = "is of network PerReplica, and the job was started with PerJob"
    assert complaint in per_job(None).service("worker-0").never()[0]
    assert complaint in per_job(None).take("worker-0").pod("worker-0", "w", 1).never()[0]
    other = Story().running("worker-0").job_service()
    assert "service job is of network PerJob, and the job was started with PerReplica" in other.never()[0]


def test_a_job_of_which_nothing_was_left_before_its_first_status_may_begin_anew() -> None:
    complaint = "service job is of network PerJob, and the job was started with PerReplica"
    assert Story().service("worker-0").take("service-worker-0").job_service().never() == []
    recorded = Story().service("worker-0").report("j", startTime="2026-01-01T00:00:00Z").take("service-worker-0")
    assert complaint in recorded.job_service().never()[0]
    others = Story(Worker=2).service("worker-0").service("worker-1").take("service-worker-0")
    assert complaint in others.job_service().never()[0]


def test_there_is_one_service_of_its_name_and_it_is_not_deleted_without_a_reason() -> None:
    strange = Story("OnFailure", {"network": "PerJob"}).job_service("strange")
    assert strange.never() == ["wrong: job: service strange has nothing to do with the job"]
    unique = per_job().job_service("job-j")
    assert [str(violation) for violation in unique.end()] == ["doubled: job: Worker-0 has 1 pods and 2 services"]
    assert "lost: job: Worker-0 has no service" in map(str, per_job().take("job").end())
    assert per_job().remove("job").never() == ["wrong: job: service job was deleted without a reason"]


def test_a_status_that_does_not_tell_is_a_loss() -> None:
    [violation] = per_job(recorded=False).end()
    assert str(violation) == "lost: job: its network is PerJob, and the status records None"
    plain = Story().running("worker-0").status("Running", "Ready", Worker=ACTIVE).report("j", network="PerJob")
    assert "its network is PerReplica, and the status records 'PerJob'" in str(plain.end()[0])


def ended(policy: str) -> Story:
    story = per_job(runPolicy={"cleanPodPolicy": policy}).phase("worker-0", "Succeeded", 0)
    return story.status("Succeeded", Worker=DONE).report("j", network="PerJob")


def test_it_stays_as_long_as_a_finished_pod_and_goes_when_all_goes() -> None:
    assert ended("Running").end() == []
    assert ended("Running").remove("job").never() == [], "nobody needs it"
    assert "stuck: job: services are left of a job that cleans up all: ['job']" in map(str, ended("All").end())
    assert ended("All").remove("job").remove("worker-0").end() == []
    left = ended("Running").take("worker-0").end()
    assert [str(violation) for violation in left] == ["stuck: job: services are left without pods: ['job']"]
