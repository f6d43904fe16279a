"""How old `lastReconcileTime` of a quiet job becomes, on a node; the Go operator beside it.

With a fifth of the usual resync period and a small part of the longest interval: the rules are the same.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.in_cluster import InCluster, shell_job

pytestmark = pytest.mark.timeout(900)

RESYNC, LONGEST = 3, 12
"""Seconds of `--resync-period` and `--reconcile-max-period`."""

LATE = 10
"""Seconds that a look, or a write of a record, may come later on a busy machine."""

QUIET = "trap 'exit 0' TERM USR1; echo up; sleep 100000 & wait"


@pytest.fixture
def quick(deployed: InCluster) -> Iterator[InCluster]:
    """The operator with short periods, given as an administrator does it."""
    deployment = "deployment/tfoperator"
    periods = {"TFOPERATOR_RESYNC_PERIOD": RESYNC, "TFOPERATOR_RECONCILE_MAX_PERIOD": LONGEST}
    try:
        deployed.kubectl("set", "env", deployment, *(f"{name}={seconds}s" for name, seconds in periods.items()))
        deployed.wait_operator()
        yield deployed
    finally:
        deployed.kubectl("set", "env", deployment, *(f"{name}-" for name in periods))
        deployed.wait_operator()


def status(namespace: InCluster, name: str = "quiet") -> dict[str, Any]:
    return dict(namespace.get("tfjob", name)["status"])


def record(namespace: InCluster, name: str = "quiet") -> datetime | None:
    recorded = status(namespace, name).get("lastReconcileTime")
    return None if recorded is None else datetime.fromisoformat(recorded)


def watch_age(namespace: InCluster, seconds: float, largest: float) -> set[datetime]:
    """The records within these seconds, none of which became older than the largest age."""
    records, until = set(), time.monotonic() + seconds
    while time.monotonic() < until:
        recorded = record(namespace)
        assert recorded is not None
        records.add(recorded)
        age = (datetime.now(UTC) - recorded).total_seconds()
        assert age <= largest, f"the record is {age:.0f} s old"
        time.sleep(0.5)
    return records


def start(namespace: InCluster, name: str = "quiet", *, until: str = "Ready") -> None:
    namespace.apply(shell_job(name, QUIET))
    namespace.wait_log(f"{name}-worker-0", "up")
    namespace.wait(name, until)


def end(namespace: InCluster) -> None:
    namespace.kubectl.run("exec", "quiet-worker-0", "--", "sh", "-c", "kill -USR1 1")
    namespace.wait("quiet", "Succeeded")


def test_the_record_of_a_quiet_job_stays_young_whoever_leads(namespace: InCluster, quick: InCluster) -> None:
    start(namespace)
    eventually(lambda: record(namespace), within=2 * RESYNC + LATE, every=0.3, what="the first comparison is recorded")
    assert len(watch_age(namespace, 2.5 * LONGEST, LONGEST + RESYNC + LATE)) > 1
    quick.kill_leader()
    without_leader = quick.get("lease", "tfoperator")["spec"]["leaseDurationSeconds"] + 1
    after = watch_age(namespace, LONGEST + without_leader, LONGEST + RESYNC + without_leader + LATE)
    assert len(after) > 1, "the next leader recorded nothing"
    start(namespace, "another")
    end(namespace)
    ended, records = status(namespace), set[datetime | None]()
    limit = 3 * LONGEST + LATE

    def recorded_thrice() -> bool:
        records.add(record(namespace, "another"))
        return len(records - {None}) == 3

    eventually(recorded_thrice, within=limit, every=0.5, what="looks at the job that goes on")
    assert status(namespace) == ended, "a job that has ended is not written any more"


@pytest.mark.usefixtures("peer")
def test_the_go_operator_records_nothing(namespace: InCluster) -> None:
    start(namespace, until="Running")
    before = namespace.get("service", "quiet-worker-0")["metadata"]["uid"]
    namespace.kubectl("delete", "service", "quiet-worker-0")

    def repaired() -> bool:
        [service] = namespace.list("services", "--field-selector=metadata.name=quiet-worker-0")
        return bool(service["metadata"]["uid"] != before)

    eventually(repaired, within=60, every=0.5, what="the service of the job is back")
    assert record(namespace) is None
    end(namespace)
    assert record(namespace) is None
