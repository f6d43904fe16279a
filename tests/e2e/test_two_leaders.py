"""Two operators that both believe they lead: one was paused for longer than its lease, and goes on where it was."""

import signal
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from hack.faults.journal import JournalRecorder
from hack.faults.oracle.judge import judge
from hack.faults.plan.attachments import Attachments
from hack.faults.simulation.cluster import ClusterSimulator
from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually, eventually_holds
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]

REPLICAS = 20
ROUNDS = 3


@pytest.fixture
def recorder(cluster: Cluster) -> Iterator[JournalRecorder]:
    with JournalRecorder(cluster.client, cluster.namespace) as new:  # type: ignore[arg-type]  # the fixture's is a Client
        yield new


def test_a_leader_that_slept_past_its_lease_doubles_nothing(
    cluster: Cluster, recorder: JournalRecorder, start_operator: Start
) -> None:
    flags = (
        "--leader-elect", f"--leader-elect-namespace={cluster.namespace}", "--leader-elect-lease-duration=5s",
        "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=300ms", "--restart-delay-base=50ms",
        # Slow enough to be paused amid its work.
        "--kube-api-qps=10", "--kube-api-burst=10",
    )  # fmt: skip
    operators = [start_operator(*flags) for _ in range(2)]
    client: Any = cluster.client  # the fixture's is a Client
    simulator = ClusterSimulator(client, cluster.namespace, (), recorder, lambda: datetime.now(UTC), Attachments())
    for number in range(ROUNDS):
        leader = eventually(lambda some=tuple(operators): leading(some), what="a leader") or operators[0]
        name = f"round-{number}"
        cluster.submit(tfjob(name, restart_policy="OnFailure", Worker=REPLICAS))
        eventually(lambda n=name: len(pods_of(recorder, n)) >= REPLICAS // 3, every=0.002, what="the first pods")
        assert leader.process is not None
        leader.process.send_signal(signal.SIGSTOP)
        assert len(pods_of(recorder, name)) < REPLICAS, "the pause came too late to prove anything"
        others = [operator for operator in operators if operator is not leader]
        eventually(lambda rest=others: leading(rest), what="the standby leads")
        eventually(lambda n=name: len(pods_of(recorder, n)) == REPLICAS, what="all pods")
        # While the first leader sleeps a pod fails, another is deleted, and the older jobs go on.
        simulator.make_progress()
        cluster.wait_condition(name, "Running")
        cluster.set_phase(f"{name}-worker-1", "Failed", exit_code=137)
        uid = pods_of(recorder, name)[f"{name}-worker-2"]
        simulator.interventions.deleted_by_plan.add(uid)
        cluster.delete_pod(f"{name}-worker-2")
        leader.process.send_signal(signal.SIGCONT)
        assert eventually(lambda operator=leader: operator.process.poll() is not None, what="it gives up")
        assert leader.process.returncode == 1
        operators = [*others, start_operator(*flags)]

    def in_order() -> None:
        simulator.make_progress()
        never, end = judge(simulator.journal())
        assert not never + end, [str(violation) for violation in never + end]

    eventually_holds(in_order, every=0.1, what="every job is as its history has it")

    def counted() -> bool:
        return all(cluster.job(f"round-{number}")["status"].get("restarts") == 2 for number in range(ROUNDS))

    eventually(counted, every=0.1, what="two restarts of each job")


def leading(operators: Iterable[OperatorProcess]) -> OperatorProcess | None:
    return next((operator for operator in operators if operator.metrics().get("tfoperator_leader") == 1), None)


def pods_of(recorder: JournalRecorder, job: str) -> dict[str, str]:
    """The UIDs of a job's pods, by name."""
    pods = [pod["metadata"] for pod in recorder.current("Pod")]
    return {str(pod["name"]): str(pod["uid"]) for pod in pods if str(pod["name"]).startswith(f"{job}-worker-")}
