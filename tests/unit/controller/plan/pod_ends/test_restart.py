from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import NOW, after, make_pod, terminated, waiting
from tfoperator.api.replicas.names import ANNOTATION_RESTARTS, MAX_RESTARTS
from tfoperator.api.v1.choices import RestartPolicy
from tfoperator.controller.plan.pod_ends.restart import (
    ended_by_deletion,
    ending_of,
    finished_at,
    is_permanent,
    overdue_seconds,
    restart_delay,
    restart_wait,
    restarts_before,
    restarts_in_place,
)
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStatus, PodCondition

OPTIONS = plan_options(restart_delay_base=1.0, restart_delay_cap=300.0)
TAINTED = PodCondition("DisruptionTarget", "True", "DeletionByTaintManager")
GONE = PodCondition("DisruptionTarget", "True", "DeletionByPodGC")
NOT_READY = PodCondition("Ready", "False")
GATED = PodCondition("Ready", "False", "ReadinessGatesNotReady")
CRASHES = waiting("CrashLoopBackOff", restarts=3)
DISRUPTED = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler")


def failed(code: int | None = None, **how: Any) -> Pod:
    return make_pod("Worker-0", "Failed", exit_code=code, **how)


@pytest.mark.parametrize("policy", list(RestartPolicy))
@pytest.mark.parametrize(
    ("pod", "permanent_under"),
    [
        *((failed(code), "Never ExitCode") for code in (1, 2, 3, 127)),
        *((failed(code), "Never") for code in (128, 130, 138, 255)),
        (failed(), "Never"),
        (failed(reason="Evicted"), ""),
        (failed(1, reason="Evicted"), ""),
        (failed(1, reason="NodeLost"), ""),
        (failed(1, conditions=(DISRUPTED,)), ""),
        (failed(reason="OutOfcpu"), ""),
    ],
)
def test_what_is_permanent(policy: RestartPolicy, pod: Pod, permanent_under: str) -> None:
    assert is_permanent(ending_of(pod), policy) is (policy in permanent_under.split())


REFUSALS = """InvalidNodeInfo NodeAffinity NodeName NodePorts OutOfnvidia.com/gpu PodLevelResourcesNotSupported
    SMTAlignmentError TaintToleration TopologyAffinityError UnexpectedPredicateFailureType UnknownReason
    VolumeAttachmentLimitExceeded"""


@pytest.mark.parametrize("reason", REFUSALS.split())
@pytest.mark.parametrize("message", ["Pod was rejected: no room", "Pod no room"])
def test_a_pod_that_its_kubelet_refused_is_taken_whatever_the_reason(reason: str, message: str) -> None:
    """Older kubelets use other words than newer kubelets, which begin each refusal with the same words."""
    ending = ending_of(failed(reason=reason, message=message))
    assert ending.infrastructure
    assert str(ending) == reason


@pytest.mark.parametrize(
    ("pod", "loss"),
    [
        # The reports of kubelets and runtimes about containers that ran when their node crashed.
        (failed(containers=(terminated(137, reason="ContainerStatusUnknown"),)), "ContainerStatusUnknown"),
        (failed(containers=(terminated(255, reason="Unknown"),)), "Unknown"),
        # An end that is known is the program's own.
        (failed(containers=(terminated(255, reason="Error"),)), ""),
        (failed(containers=(terminated(1, reason="Unknown"),)), ""),
        (failed(containers=(terminated(1), terminated(137, reason="ContainerStatusUnknown", container="sidecar"))), ""),
        # A pod that has run or is over was not refused.
        (failed(reason="DeadlineExceeded", message="Pod was active on the node longer than ..."), ""),
        (failed(1, message="Pod was rejected: says the program"), ""),
        (failed(1, reason="NodeName"), ""),
        (failed(init_containers=(terminated(1, container="init"),), message="Pod was rejected: not"), ""),
        (failed(message="Pod was rejected: but nobody says why"), ""),
    ],
)
def test_what_is_a_nodes_loss(pod: Pod, loss: str) -> None:
    ending = ending_of(pod)
    assert (ending.infrastructure, str(ending) if loss else "") == (bool(loss), loss)


@pytest.mark.parametrize(
    ("containers", "init", "code"),
    [
        ((terminated(0, container="sidecar"), terminated(7)), (), 7),
        ((terminated(9, container="sidecar"), terminated(7)), (), 7),
        ((terminated(9, container="sidecar"), terminated(0)), (), 9),
        ((ContainerStatus(name="tensorflow"),), (terminated(3, container="init"),), 3),
        ((terminated(0),), (), None),
        ((), (), None),
    ],
)
def test_the_exit_code_is_that_of_the_training_container_first(
    containers: tuple[ContainerStatus, ...], init: tuple[ContainerStatus, ...], code: int | None
) -> None:
    pod = failed(containers=containers, init_containers=init)
    assert ending_of(pod).exit_code == code


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (failed(1), "exited with code 1"),
        (failed(containers=(terminated(137, reason="OOMKilled"),)), "code 137 (OOMKilled)"),
        (failed(containers=(terminated(1, reason="Error"),)), "exited with code 1"),
        (failed(1, reason="Evicted"), "Evicted"),
        (failed(), "failed without an exit code"),
    ],
)
def test_an_ending_reads_well(pod: Pod, text: str) -> None:
    assert str(ending_of(pod)).endswith(text)


def test_delays_double_up_to_the_cap() -> None:
    delays = [restart_delay(n, OPTIONS) for n in (1, 2, 3, 9, 10, 1_000_000)]
    assert delays == [1, 2, 4, 256, 300, 300]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pod", "restart", "now", "wait"),
    [
        (failed(1), 1, 0.0, 1.0),
        (failed(1), 3, 1.0, 3.0),
        (failed(1), 3, 4.0, 0.0),
        (failed(1), 3, 500.0, 0.0),
        # The node's clock is ahead: a little is waited for, a lot is not believed, and its creation counts.
        (failed(1, start=after(3)), 3, 0.0, 7.0),
        (failed(1, start=after(3600)), 3, 0.0, 4.0),
        (failed(1, start=after(3600), created=after(-2)), 3, 0.0, 2.0),
        (failed(1, start=after(3600), created=after(-20)), 3, 0.0, 0.0),
        # It is behind, or there was no start at all, as for a command that is not there: not before its creation.
        (failed(1, start=after(-600), created=after(-2)), 3, 0.0, 2.0),
        (failed(containers=(terminated(128, started=EPOCH),), created=after(-2)), 9, 0.0, 254.0),
        # Never ran: its start, else its creation, stands in.
        (failed(start=after(-3)), 3, 0.0, 1.0),
        (failed(start=None, created=after(-1)), 3, 0.0, 3.0),
        (failed(start=None, created=None), 3, 0.0, 0.0),
        # The time for which it ran counts.
        (failed(1, start=after(-1)), 1, 0.0, 0.0),
        (failed(1, start=after(-100)), 9, 0.0, 156.0),
        (failed(1, start=after(-300)), 1_000, 0.0, 0.0),
        # The time for pulling its image doesn't count, nor the time of an init container or of an earlier end.
        (failed(containers=(terminated(1, started=NOW),), start=after(-60)), 3, 0.0, 4.0),
        (
            failed(
                containers=(terminated(1, started=after(-9)), terminated(0, started=NOW, container="log")),
                init_containers=(terminated(0, started=after(-60), container="init"),),
                start=after(-60),
            ),
            5,
            0.0,
            7.0,
        ),
        (failed(init_containers=(terminated(1, started=after(-2), container="init"),), start=after(-9)), 3, 0.0, 2.0),
    ],
)
def test_how_long_a_restart_waits(pod: Pod, restart: int, now: float, wait: float) -> None:
    assert restart_wait(pod, restart, after(now), OPTIONS) == wait


@pytest.mark.parametrize(
    ("annotation", "count"), [("3", 3), ("", 0), ("-1", 0), ("x", 0), ("1e3", 0), ("٣", 0), ("9" * 30, 0)]
)
def test_the_annotation_is_read_tolerantly(annotation: str, count: int) -> None:
    pod = make_pod("Worker-0")
    meta = msgspec.structs.replace(pod.metadata, annotations={ANNOTATION_RESTARTS: annotation})
    assert restarts_before(Pod(metadata=meta)) == count
    assert restarts_in_place(make_pod("Worker-0", in_place=2**31 - 1)) == MAX_RESTARTS


@pytest.mark.parametrize(
    ("finished", "blamed"),
    [(after(0), True), (after(20), True), (after(-9), True), (after(-10), False), (after(-60), False), (None, True)],
)
def test_an_end_after_a_deletion_is_blamed_on_it(finished: object, blamed: bool) -> None:
    pod = failed(1, finished=finished, deleted=NOW)
    assert ended_by_deletion(pod) is blamed
    assert not ended_by_deletion(failed(1, finished=finished)), "it does not terminate"
    assert ended_by_deletion(failed(1, finished=finished, deleted=NOW, grace=0)), "its deletion may be older"


@pytest.mark.parametrize(
    ("pod", "overdue"),
    [
        (make_pod("Worker-0"), None),
        (make_pod("Worker-0", deleted=NOW), None),
        (make_pod("Worker-0", "Unknown", deleted=NOW), -60.0),
        (make_pod("Worker-0", "Unknown", deleted=NOW, grace=5), -35.0),
        (make_pod("Worker-0", "Running", reason="NodeLost", deleted=after(-90)), 30.0),
        (make_pod("Worker-0", deleted=after(-60), conditions=(TAINTED, NOT_READY)), 0.0),
        (make_pod("Worker-0", deleted=after(-60), conditions=(GONE,)), 0.0),
        # Its kubelet has not reported that a container runs in it.
        (make_pod("Worker-0", "Pending", deleted=after(-60), conditions=(TAINTED,)), 0.0),
        (make_pod("Worker-0", deleted=after(-60), containers=(CRASHES,), conditions=(TAINTED, NOT_READY)), 0.0),
        # Any taint may have taken it from a node that lives, whose kubelet itself reports whether it is ready.
        (make_pod("Worker-0", deleted=after(-600), conditions=(TAINTED,)), None),
        (make_pod("Worker-0", deleted=after(-600), conditions=(TAINTED, PodCondition("Ready", "True"))), None),
        (make_pod("Worker-0", ready=False, deleted=after(-600), conditions=(TAINTED, NOT_READY)), None),
        (make_pod("Worker-0", deleted=after(-600), conditions=(TAINTED, GATED)), None),
        (make_pod("Worker-0", deleted=after(-600), conditions=(DISRUPTED,)), None),
        # Already deleted by force: only a finalizer can hold it.
        (make_pod("Worker-0", "Unknown", deleted=after(-600), grace=0), None),
    ],
)
def test_when_a_pod_on_a_lost_node_is_overdue(pod: Pod, overdue: float | None) -> None:
    assert overdue_seconds(pod, NOW, plan_options(node_lost_margin=30)) == overdue


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_pod_without_the_end_of_its_program_ended_with_the_last_of_its_containers(order: tuple[int, int]) -> None:
    ends = [terminated(1, finished=after(at), container=f"proxy-{at}") for at in order]
    assert finished_at(make_pod("Worker-0", "Failed", containers=ends)) == after(2)
