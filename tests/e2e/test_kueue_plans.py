"""Quota is never overdrawn, by whatever happens and whoever is killed, and no right to Kueue's objects is too many."""

from collections.abc import Iterator

import pytest

from hack.chart import roles
from tests.e2e.conftest import OPERATOR_USER
from tests.e2e.queue_plans import plans_cluster, play
from tests.e2e.queues import PATIENCE, Queues
from tests.support.audit import AuditTrail, granted
from tests.support.eventually import eventually
from tfoperator.api.queues import PRIORITY_LABEL

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    # Without streaming lists, as before Kubernetes 1.34, the operator lists before it watches.
    with plans_cluster(tmp_path_factory.mktemp("plans"), "ours", "--feature-gates=WatchList=false") as found:
        yield found


def test_the_operator_needs_these_rights_to_kueue_and_no_others(ours: Queues) -> None:
    trail = AuditTrail(ours.plane.audit_log, OPERATOR_USER)
    ours.operator.kill()
    ours.operator.start().wait_ready()
    queue = ours.queue(2)
    job = ours.submit("rights", queue, Worker=1)
    ours.submit("of-class", queue, labels={PRIORITY_LABEL: "low"}, Worker=1)
    ours.submit("of-pods", queue, policy={"priorityClass": "nosuch"}, Worker=1)
    ours.wait_running(job, "worker-0")
    job.suspend()
    eventually(lambda: not ours.workloads(job), within=PATIENCE, every=0.1, what="no Workload")
    trail.wait_used(granted([*roles()["kueue"], *roles()["kueue-classes"]]))
    assert trail.refused() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_no_plan_overdraws_a_quota(ours: Queues, seed: int) -> None:
    plan = play(ours, seed)
    assert not plan.judge.broken
    assert plan.kills["kueue"], "a plan without a killed Kueue"
