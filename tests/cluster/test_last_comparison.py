"""How old `lastReconcileTime` of a quiet job becomes, on a node; the Go operator beside it.

With a fifth of the usual resync period and a tenth of the longest interval: the rules are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.in_cluster import InCluster, shell_job

pytestmark = pytest.mark.timeout(900)

RESYNC, LONGEST = 3, 30
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
        deployed.kubectl("rollout", "status", deployment, "--timeout=200s", timeout=220)
        yield deployed
    finally:
        deployed.kubectl("set", "env", deployment, *(f"{name}-" for name in periods))
        deployed.kubectl("rollout", "status", deployment, "--timeout=200s", timeout=220)


def status(namespace: InCluster) -> dict[str, Any]:
    return dict(namespace.get("tfjob", "quiet")["status"])


def record(namespace: InCluster) -> datetime | None:
    told = status(namespace).get("lastReconcileTime")
    return None if told is None else datetime.fromisoformat(told)


def watch_age(namespace: InCluster, seconds: float, largest: float) -> set[datetime]:
    """The records within these seconds, none of which became older than the largest age."""
    seen, until = set(), time.monotonic() + seconds
    while time.monotonic() < until:
        recorded = record(namespace)
        assert recorded is not None
        seen.add(recorded)
        age = (datetime.now(UTC) - recorded).total_seconds()
        assert age <= largest, f"the record is {age:.0f} s old"
        time.sleep(0.5)
    return seen


def start(namespace: InCluster) -> None:
    namespace.apply(shell_job("quiet", QUIET))
    namespace.wait_log("quiet-worker-0", "up")
    namespace.wait("quiet", "Ready")


def end(namespace: InCluster) -> None:
    namespace.kubectl.run("exec", "quiet-worker-0", "--", "sh", "-c", "kill -USR1 1")
    namespace.wait("quiet", "Succeeded")


def test_the_record_of_a_quiet_job_stays_young_whoever_leads(namespace: InCluster, quick: InCluster) -> None:
    start(namespace)
    eventually(lambda: record(namespace), within=2 * RESYNC + LATE, every=0.3, what="the first comparison is recorded")
    assert len(watch_age(namespace, 2.5 * LONGEST, LONGEST + RESYNC + LATE)) > 1
    holder = quick.get("lease", "tfoperator")["spec"]
    quick.kubectl("delete", "pod", holder["holderIdentity"].partition("_")[0], "--grace-period=0", "--force")
    without_leader = holder["leaseDurationSeconds"] + 1
    after = watch_age(namespace, LONGEST + without_leader, LONGEST + RESYNC + without_leader + LATE)
    assert len(after) > 1, "the next leader recorded nothing"
    end(namespace)
    ended = status(namespace)
    time.sleep(LONGEST + RESYNC)
    assert status(namespace) == ended, "a job that has ended is not written any more"


@pytest.mark.usefixtures("peer")
def test_the_go_operator_records_nothing(namespace: InCluster) -> None:
    namespace.apply(shell_job("quiet", QUIET))
    namespace.wait_log("quiet-worker-0", "up")
    namespace.wait("quiet", "Running")
    time.sleep(LONGEST)
    assert record(namespace) is None
    end(namespace)
    assert record(namespace) is None
