import json
from typing import Any

import msgspec

from hack.bench.loads import Load
from hack.bench.watcher import Event, Observations, all_reported, all_running


def event(kind: str, name: str, uid: str = "", **status: Any) -> Event:
    body = {"type": kind, "object": {"metadata": {"name": name, "uid": uid}, "status": status}}
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


def test_pods_that_run_are_counted_up_and_down_and_each_of_a_name_is_a_life_of_its_own() -> None:
    seen = Observations()
    for name in ("p", "q"):
        seen.see_pod(event("ADDED", name, phase="Pending"), 1.0)
        seen.see_pod(event("MODIFIED", name, phase="Running"), 2.0)
        seen.see_pod(event("MODIFIED", name, phase="Running"), 3.0)
    assert (seen.running, seen.pod_running) == (2, {"p": 2.0, "q": 2.0})
    seen.see_pod(event("MODIFIED", "p", phase="Failed"), 4.0)
    seen.see_pod(event("DELETED", "q", phase="Running"), 5.0)
    assert (seen.running, seen.phases) == (0, {"p": "Failed"})
    seen.see_pod(event("ADDED", "q", phase="Pending"), 6.0)
    assert seen.pods_made == {"p": 1, "q": 2}


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


def test_a_kill_is_healed_when_the_successor_runs() -> None:
    seen = Observations()
    seen.see_pod(event("ADDED", "p", "1", phase="Pending"), 1.0)
    seen.see_pod(event("MODIFIED", "p", "1", phase="Running"), 2.0)
    seen.kill("p", 10.0)
    # News of the victim that is late heals nothing.
    seen.see_pod(event("MODIFIED", "p", "1", phase="Running"), 10.1)
    seen.see_pod(event("MODIFIED", "p", "1", phase="Failed"), 10.2)
    seen.see_pod(event("DELETED", "p", "1", phase="Failed"), 10.3)
    seen.see_pod(event("ADDED", "p", "2", phase="Pending"), 10.4)
    assert (seen.healed, list(seen.killed)) == ([], ["p"])
    seen.see_pod(event("MODIFIED", "p", "2", phase="Running"), 10.5)
    seen.see_pod(event("MODIFIED", "p", "2", phase="Running"), 11.0)
    assert (seen.healed, seen.killed, seen.last_healed) == ([0.5], {}, 10.5)


def test_a_replica_may_be_killed_again() -> None:
    seen = Observations()
    for number, moment in enumerate((1.0, 20.0, 40.0)):
        seen.see_pod(event("ADDED", "p", str(number), phase="Pending"), moment + 1)
        seen.see_pod(event("MODIFIED", "p", str(number), phase="Running"), moment + 2)
        seen.kill("p", moment + 10)
    assert seen.healed == [11.0, 12.0]
