"""Restarts in place: the same account of them as of restarts by recreation."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import NOW, after, make_job, make_pod, planned, started, with_status
from tests.unit.controller.world import PROXY, World
from tfoperator.api.replicas.names import ANNOTATION_RESTART_MODE
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.replicas.in_place import RULE_TIMEOUT
from tfoperator.controller.plan.values.observed import PlanOptions
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)

ENDED = ContainerState(terminated=ContainerStateTerminated(130, "Error", "", NOW))
WAITS = ContainerState(waiting=ContainerStateWaiting("CrashLoopBackOff"))
OLD_SERVER = plan_options(restart_rules=False)


def in_place(policy: str = "ExitCode", **run_policy: Any) -> TFJob:
    worker = {"replicas": 2, "restartPolicy": policy}
    return make_job({"Worker": worker}, runPolicy={"restartMode": "InPlace", **run_policy})


def pod(state: ContainerState, last: ContainerState | None = None, *, restarts: int = 0, beside: bool = False) -> Pod:
    container = ContainerStatus("tensorflow", state == ContainerState(), restarts, state, last)
    made = make_pod("Worker-1", restart_policy="Never", containers=(container, *([PROXY] if beside else ())))
    return by_rule(made)


def by_rule(made: Pod) -> Pod:
    annotations = {ANNOTATION_RESTART_MODE: "InPlace"}
    meta = msgspec.structs.replace(made.metadata, annotations=annotations, resource_version="1")
    return msgspec.structs.replace(made, metadata=meta)


@pytest.mark.parametrize(
    ("policy", "run_policy", "options", "ruled"),
    [
        ("ExitCode", {}, plan_options(), True),
        ("OnFailure", {}, plan_options(), False),
        ("Never", {}, plan_options(), False),
        ("ExitCode", {"restartMode": "Recreate"}, plan_options(), False),
        ("ExitCode", {"restartScope": "Job"}, plan_options(), False),
        # A kubelet would make the one restart that is not allowed.
        ("ExitCode", {"backoffLimit": 0}, plan_options(), False),
        ("ExitCode", {}, OLD_SERVER, False),
    ],
)
def test_a_rule_restarts_what_exit_code_calls_retryable(
    policy: str, run_policy: dict[str, Any], options: PlanOptions, ruled: bool
) -> None:
    job = in_place(policy, **run_policy)
    first = planned(job, options=options)
    body = first.creations("pods")[0].body
    [container] = body["spec"]["containers"]
    assert body["spec"]["restartPolicy"] == ("OnFailure" if policy == "OnFailure" else "Never")
    assert (ANNOTATION_RESTART_MODE in body["metadata"].get("annotations", {})) == ruled
    assert ("RestartsByRecreation" in first.reasons) == (options is OLD_SERVER)
    if ruled:
        [rule] = container["restartPolicyRules"]
        codes = rule["exitCodes"]
        assert (container["restartPolicy"], rule["action"], codes["operator"]) == ("Never", "Restart", "NotIn")
        assert codes["values"] == [*range(128)]
    else:
        assert not {"restartPolicy", "restartPolicyRules"} & container.keys()
    again = planned(with_status(job, first.status), make_pod("Worker-0"), options=options)
    assert "RestartsByRecreation" not in again.reasons, "it is said once"


@pytest.mark.parametrize(
    ("state", "last", "restarts", "exits"),
    [
        (ENDED, None, 0, 1),
        (WAITS, ENDED, 0, 1),
        (WAITS, ENDED, 1, 2),
        # The kubelet was faster than the operator.
        (ContainerState(), ENDED, 1, 1),
        (ContainerState(), ENDED, 3, 3),
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_an_exit_is_counted_and_told_once_and_the_pod_stays(
    state: ContainerState, last: ContainerState | None, restarts: int, exits: int, beside: bool
) -> None:
    job, runs = started(in_place()), state == ContainerState()
    pods = (make_pod("Worker-0"), pod(state, last, restarts=restarts, beside=beside))
    first = planned(job, *pods)
    workers = first.status.replica_statuses["Worker"]
    assert (workers.restarts, workers.restart_counts, workers.failed) == (exits, {"1": exits}, int(not runs))
    assert ("1" in workers.started_indexes) == runs, "the loss of a pod that waits is no second restart"
    assert first.reasons == ["TFJobRestarting", "RestartedInPlace"]
    numbers = "restart 1" if exits == 1 else f"restarts 1 to {exits}"
    message = f"worker-1 is restarted in place: {numbers} in pod mnist-worker-1, last exit code 130 (SIGINT)."
    assert first.events[1].message == message
    assert first.is_true(ConditionType.RESTARTING) == (not runs)
    assert not first.changes_objects
    assert first.write_status
    again = planned(with_status(job, first.status), *pods)
    assert not again.acts
    if not runs:
        # A new leader's older list: the pod seems to be left over from a restart by recreation.
        before = pod(ContainerState(), restarts=exits - 1, beside=beside)
        older = planned(with_status(job, first.status), make_pod("Worker-0"), before)
        assert [deletion.resource_version for deletion in older.deletions("pods")] == ["1"], "as it is seen only"
    returned = pod(ContainerState(), ENDED, restarts=exits, beside=beside)
    back = planned(with_status(job, first.status), make_pod("Worker-0"), returned)
    assert (back.status.restarts, back.is_true(ConditionType.RUNNING), back.events) == (exits, True, ())


@pytest.mark.parametrize(
    ("limit", "state", "restarts", "here"),
    [(1, WAITS, 1, True), (1, ContainerState(), 2, True), (2, ContainerState(), 3, True), (1, WAITS, 1, False)],
)
def test_the_failure_that_ends_it_is_not_counted(limit: int, state: ContainerState, restarts: int, here: bool) -> None:
    policy, mode = ("ExitCode", "InPlace") if here else ("OnFailure", "Recreate")
    job = started(in_place(policy, restartMode=mode, backoffLimit=limit))
    ended = planned(job, make_pod("Worker-0"), pod(state, ENDED, restarts=restarts))
    assert ended.condition(ConditionType.FAILED).message.endswith("backoff limit: Worker-1: exited with code 130")
    assert ended.status.restarts == limit
    assert sorted(ended.stopped_pods) == ["Worker-0", "Worker-1"]


def test_a_kubelet_that_knows_no_rules_is_told_of_once() -> None:
    job = started(in_place())
    failed = by_rule(make_pod("Worker-1", "Failed", exit_code=130, start=after(-600)))
    first = planned(job, make_pod("Worker-0"), failed)
    assert first.reasons == ["TFJobRestarting", "RestartsByRecreation", "ExitedWithCode"]
    assert first.created_pods == first.deleted_pods == ["Worker-1"]
    assert "RestartsByRecreation" not in planned(with_status(job, first.status), make_pod("Worker-0"), failed).reasons
    # A pod from before the mode was changed has no rule, and an evicted one could not follow it.
    for other in (
        make_pod("Worker-1", "Failed", exit_code=130, start=after(-600)),
        by_rule(make_pod("Worker-1", "Failed", exit_code=137, reason="Evicted", start=after(-600))),
    ):
        assert "RestartsByRecreation" not in planned(job, make_pod("Worker-0"), other).reasons


@pytest.mark.parametrize("late", [False, True])
def test_beside_containers_that_run_a_restart_is_not_awaited_for_ever(late: bool) -> None:
    job, now = started(in_place()), after(RULE_TIMEOUT + (1 if late else -1))
    result = planned(job, make_pod("Worker-0"), pod(ENDED, beside=True), now=now)
    assert result.deleted_pods == (["Worker-1"] if late else [])
    assert late or result.requeue_after == 1


@settings(max_examples=60, deadline=None)
@given(
    policy=st.sampled_from(["ExitCode", "OnFailure"]),
    exits=st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0, 1, 3, 128, 130, 137])), max_size=7),
    limit=st.none() | st.integers(0, 4),
    backs_off=st.booleans(),
    success=st.sampled_from(["", "AllWorkers"]),
    maximum=st.none() | st.just(1),
)
def test_the_account_is_that_of_recreation(
    policy: str, exits: list[tuple[int, int]], limit: int | None, backs_off: bool, success: str, maximum: int | None
) -> None:
    """For any exits: counts, the final conditions, and events, where an event of a restart in place names its code."""
    accounts = []
    for mode in ("InPlace", "Recreate"):
        run_policy = {"restartMode": mode, **({} if limit is None else {"backoffLimit": limit})}
        more = {} if maximum is None else {"maxFailedWorkers": maximum}
        worker = {"replicas": 2, "restartPolicy": "ExitCode" if mode == "Recreate" else policy}
        job = make_job({"Worker": worker}, runPolicy=run_policy, successPolicy=success, **more)
        world = World(job, options=plan_options(restart_delay_base=0.0), backs_off=backs_off)
        events: list[tuple[str, str]] = []
        pods: set[str] = set()
        for index, code in [(-1, 0), *exits]:
            name = f"{job.metadata.name}-worker-{index}"
            if name in world.pods:
                # Under OnFailure every failure is retryable.
                world.exit(name, 130 if code and policy == "OnFailure" else code)
            for _ in range(4):
                result = world.sync()
                events += [(event.reason, by_recreation(event.message)) for event in result.events]
                for pod_name in world.pods:
                    world.run(pod_name)
            pods.update(world_pod.metadata.uid for world_pod in world.pods.values())
        assert mode == "Recreate" or len(pods) == 2 or limit == 0
        status = world.job.status
        account = {c.type: (c.status, c.reason, c.message) for c in status.conditions}
        account.pop("Restarting", None)  # false in the end, if it was ever seen to be true
        counts = [(s.restart_counts, s.completed_indexes, s.failed_indexes) for s in status.replica_statuses.values()]
        objects = {"SuccessfulCreatePod", "SuccessfulDeletePod"}
        exits_of_pods = {"RestartedInPlace": "ExitedWithCode"}
        accounts.append(
            (account, counts, [(exits_of_pods.get(why, why), text) for why, text in events if why not in objects])
        )
    assert accounts[0] == accounts[1]


IN_PLACE = re.compile(r".* is restarted in place: restart \d+ in pod (\S+), last exit code (\d+)( \(\w+\))?\.")


def by_recreation(message: str) -> str:
    """The message of the event about the same exit where the pod is made again."""
    return IN_PLACE.sub(r"Pod: ns.\1 exited with code \2", message)
