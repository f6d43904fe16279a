from __future__ import annotations

import json
from typing import Any

import msgspec

from hack.bench.loads import Load
from hack.bench.watcher import Event, Observations, all_reported, all_running


def event(kind: str, name: str, **status: Any) -> Event:
    body = {"type": kind, "object": {"metadata": {"name": name}, "status": status}}
    return msgspec.json.decode(json.dumps(body).encode(), type=Event)


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status}


def test_the_first_time_counts() -> None:
    seen = Observations()
    seen.see_job(event("ADDED", "a"), 1.0)
    seen.see_job(event("MODIFIED", "a", conditions=[condition("Running")]), 2.0)
    seen.see_job(event("MODIFIED", "a", conditions=[condition("Running"), condition("Succeeded", "False")]), 3.0)
    seen.see_job(event("MODIFIED", "a", conditions=[condition("Succeeded")]), 4.0)
    assert (seen.job_created, seen.job_running, seen.job_ended) == ({"a": 1.0}, {"a": 2.0}, {"a": 4.0})
    assert not seen.job_failed


def test_pods_that_run_are_counted_up_and_down() -> None:
    seen = Observations()
    for name in ("p", "q"):
        seen.see_pod(event("ADDED", name, phase="Pending"), 1.0)
        seen.see_pod(event("MODIFIED", name, phase="Running"), 2.0)
        seen.see_pod(event("MODIFIED", name, phase="Running"), 3.0)
    assert (seen.running, seen.pod_running) == (2, {"p": 2.0, "q": 2.0})
    seen.see_pod(event("MODIFIED", "p", phase="Failed"), 4.0)
    seen.see_pod(event("DELETED", "q", phase="Running"), 5.0)
    assert (seen.running, seen.phases) == (0, {"p": "Failed"})


def test_every_pod_of_a_name_is_a_life_of_its_own() -> None:
    seen = Observations()
    for kind in ("ADDED", "DELETED", "ADDED"):
        seen.see_pod(event(kind, "p", phase="Pending"), 1.0)
    assert seen.pods_made == {"p": 2}


def test_all_run_when_every_job_says_so_and_every_pod_does() -> None:
    load, seen = Load("x", jobs=1, ps=0, workers=1), Observations()
    seen.see_pod(event("ADDED", "a-worker-0", phase="Running"), 1.0)
    assert not all_running(load)(seen)
    seen.see_job(event("ADDED", "a", conditions=[condition("Running")], replicaStatuses={"Worker": {}}), 2.0)
    assert all_running(load)(seen)
    assert not all_reported(load)(seen)
    seen.see_job(event("MODIFIED", "a", replicaStatuses={"Worker": {"active": 1}}), 3.0)
    assert all_reported(load)(seen)
    assert seen.active_since == {"a": 3.0}
