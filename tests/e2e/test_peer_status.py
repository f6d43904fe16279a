"""The Go operator's status scenarios, replayed: every combination of what chief, workers and servers do.

All jobs are made at once. Then the operator is killed, every pod's phase is written, and a new operator sees each job
for the first time as the combination says: what a job becomes must not depend on which pod changed first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from tests.support.cluster import Json, decode
from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster, Operated
from tfoperator.api.v1.types import TFJOBS

pytestmark = pytest.mark.controlplane

PENDING, RUNNING, SUCCEEDED, FAILED = PHASES = ("Pending", "Running", "Succeeded", "Failed")


class Case(NamedTuple):
    """The phases of the pods, in the order of their indexes, and the success policy."""

    chief: tuple[str, ...]
    workers: tuple[str, ...]
    servers: tuple[str, ...]
    policy: str = ""

    @property
    def name(self) -> str:
        groups = zip("cwp", (self.chief, self.workers, self.servers), strict=True)
        letters = [kind + "".join(phase[0] for phase in phases) for kind, phases in groups if phases]
        return "-".join([*letters, *filter(None, [self.policy])]).lower()

    @property
    def phases(self) -> dict[str, str]:
        groups = {"chief": self.chief, "worker": self.workers, "ps": self.servers}
        return {f"{kind}-{i}": phase for kind, phases in groups.items() for i, phase in enumerate(phases)}

    @property
    def expected(self) -> str:
        """The Go operator's rules, except that it can make a job whose chief is done both Succeeded and Failed."""
        if self.chief:
            succeeded = set(self.chief) == {SUCCEEDED}
        elif self.policy == "AllWorkers":
            succeeded = set(self.workers) == {SUCCEEDED}
        else:
            succeeded = self.workers[0] == SUCCEEDED
        if succeeded:
            return "Succeeded"
        if FAILED in self.phases.values():
            return "Failed"
        return "Running" if RUNNING in (self.chief or self.workers) else "Created"


def cases() -> Iterator[Case]:
    chiefs = [(), *((phase,) for phase in PHASES)]
    for chief, worker, server in itertools.product(chiefs, PHASES, PHASES):
        yield Case(chief, (worker,), (server,))
    pairs = ("RS", "SR", "SS", "RF", "SF", "FS", "SP", "PS")
    phase_of = {phase[0]: phase for phase in PHASES}
    for pair, policy, chief in itertools.product(pairs, ("", "AllWorkers"), ((), (RUNNING,))):
        yield Case(chief, tuple(phase_of[letter] for letter in pair), (), policy)
    yield Case((RUNNING, SUCCEEDED), (SUCCEEDED,), ())
    yield Case((SUCCEEDED, SUCCEEDED), (RUNNING,), ())


CASES = {case.name: case for case in cases()}


def submitted(operated: Operated, case: Case) -> JobOnCluster:
    groups = {"Chief": len(case.chief), "Worker": len(case.workers), "PS": len(case.servers)}
    spec = {"successPolicy": case.policy}
    return operated.job(case.name, spec=spec, **{kind: count for kind, count in groups.items() if count})


@pytest.fixture(scope="module")
def statuses(operated: Operated) -> dict[str, Json]:
    """The status of every case's job, once the operator has looked at all of them."""
    with ThreadPoolExecutor(4, thread_name_prefix="kubelet") as pool:
        jobs = dict(zip(CASES, pool.map(lambda case: submitted(operated, case), CASES.values()), strict=True))
        total = sum(len(case.phases) for case in CASES.values())
        eventually(lambda: len(operated.cluster.pods()) == total, within=120, every=0.2, what=f"{total} pods")

        def report(name: str) -> None:
            for replica, phase in CASES[name].phases.items():
                if phase != PENDING:
                    jobs[name].play(phase, replica)

        operated.restart_operator(meanwhile=lambda: list(pool.map(report, jobs)))
    # A new leader looks at all jobs that it knows before any that comes later.
    operated.settle()
    listed = operated.cluster.client.list(TFJOBS, operated.cluster.namespace, decode).items
    return {item["metadata"]["name"]: item["status"] for item in listed}


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_a_job(statuses: dict[str, Json], name: str) -> None:
    case, status = CASES[name], statuses[name]
    conditions: dict[str, Any] = {c["type"]: c for c in status["conditions"]}
    true = {kind for kind, condition in conditions.items() if condition["status"] == "True"}
    assert status["conditions"][-1]["type"] == case.expected
    assert true - {"Ready"} == {"Created", case.expected}, "never two verdicts"
    assert ("completionTime" in status) is (case.expected in ("Succeeded", "Failed"))
    if case.expected in ("Created", "Running"):
        active = sum(one.get("active", 0) for one in status["replicaStatuses"].values())
        succeeded = sum(one.get("succeeded", 0) for one in status["replicaStatuses"].values())
        phases = list(case.phases.values())
        assert (active, succeeded) == (phases.count(RUNNING), phases.count(SUCCEEDED))
