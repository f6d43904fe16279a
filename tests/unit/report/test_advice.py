"""The rules of the advice, each with what a real program has left: its exit code, its last lines and its peers."""

import pytest

from tests.unit.report.test_report import failed, raised, replica, report, run, text, traceback
from tfoperator.report.blame import suspects
from tfoperator.report.facts import FinalState, Typed

LOST = (
    "tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error:",
    "",
    "Detected at node CollectiveReduceV2 defined at (most recent call last):",
    *(f'  File "/home/me/train.py", line {line}, in step{line}' for line in range(12)),
    "",
    "Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy:",
    "/job:worker/replica:0/task:1",
    "\t [[{{node CollectiveReduceV2}}]] [Op:__inference_step_31]",
)


def lost(code: int = 137, when: float = 2, **more: object) -> object:
    """Worker 1, which was killed and started again, and worker 0, which fails without it."""
    survivor = failed("worker-0", run(1, 4, *traceback(LOST[0])[:-1], *LOST), restart_policy="ExitCode")
    again = run(143, 5, stopped=True)
    return report(survivor, replica("worker-1", FinalState.STOPPED, run(code, when, "step 7"), again), **more)


@pytest.mark.parametrize(
    ("typed", "how"),
    [
        (Typed.MANIFEST, "set spec.runPolicy.restartScope to Job"),
        (Typed.PROGRAM, "add --restart-scope job"),
        (Typed.FUNCTION, "set restart_together=True"),
    ],
)
def test_the_peer_that_was_killed_is_the_cause_and_all_are_to_start_again_together(typed: Typed, how: str) -> None:
    made = lost(typed=typed)
    assert (made.culprit.replica, made.culprit.lost_by) == ("worker-1", ("worker-0",))
    shown = text(made)
    assert shown.startswith("worker-1 failed with exit code 137 (killed).\nworker-1 was restarted, but worker-0")
    assert "worker-0 failed with exit code 1." in shown
    assert how in made.advice[0]
    assert "restartPolicy" not in shown
    assert not any("together" in line for line in lost(together=True).advice)


def test_who_failed_earlier_or_only_complains_is_not_the_cause() -> None:
    assert lost(when=60).culprit.replica == "worker-0", "it was killed after the survivor had failed"
    assert lost(code=143).culprit.replica == "worker-0"
    own = raised("worker-0", 4, "ValueError: bad shape")
    peer = replica("worker-1", FinalState.STOPPED, run(137, 2, "step 7"), run(143, 5, stopped=True))
    assert report(own, peer).culprit.replica == "worker-0", "its error is about itself"
    assert suspects([own, peer]) == ["worker-0", "worker-1"], "the log of either may be needed"
    both = [replica(f"worker-{n}", FinalState.RUNNING, run(137, n), run(None)) for n in (1, 2)]
    survivor = failed("worker-0", run(1, 3, *traceback(LOST[0])[:-1], *LOST))
    assert report(survivor, *both).culprit.replica == "worker-1", "the error names task 1"


JAX_FATAL = (
    "F0000 00:00:1 20 client.h:81] Terminating process because the JAX distributed service detected fatal errors. This "
    "most likely indicates that another task died; see the other task logs for more details. absl::Status: "
    "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
    "/job:jax_worker/replica:0/task:2",
)
GLOO_LOST = "jax.errors.JaxRuntimeError: INTERNAL: Gloo all-reduce failed: Connection closed by peer [127.0.0.1]:8622"


def test_of_the_processes_of_jax_the_one_that_was_killed_is_the_cause_by_its_number() -> None:
    both = [replica(f"worker-{n}", FinalState.RUNNING, run(137, 2 - n), run(None)) for n in (0, 1)]
    chief = failed("chief-0", run(134, 4, "step 7", *JAX_FATAL))
    assert report(chief, *both).culprit.replica == "worker-1", "process 2 of a chief and its workers is worker-1"
    survivor = failed("worker-0", run(1, 4, *traceback(GLOO_LOST)[:-1], GLOO_LOST))
    killed = failed("worker-1", run(137, 4, "step 7"))
    assert report(survivor, killed).culprit.replica == "worker-1", "who lost a peer is not the cause"


def test_restarts_keep_the_line_that_names_the_peer() -> None:
    again = replica("worker-0", FinalState.RUNNING, run(1, 4, *traceback(LOST[0])[:-1], *LOST), run(None))
    [restart] = report(again, outcome="Running").restarts
    assert restart.cause == (
        "exit code 1: tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error: "
        "Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy:"
    )
    plain = run(1, 4, "E0000 x: UNAVAILABLE: remote target /job:worker/replica:0/task:1", "bye")
    [restart] = report(replica("worker-0", FinalState.RUNNING, plain, run(None)), outcome="Running").restarts
    assert "/job:worker/replica:0/task:1" in restart.cause


def test_a_message_of_many_lines_keeps_its_reason_and_not_the_calls_of_a_graph() -> None:
    shown = text(report(failed("worker-0", run(1, 4, *traceback(LOST[0])[:-1], *LOST))))
    assert "Collective ops is aborted by" in shown
    assert "in step11" not in shown


def test_who_was_stopped_amid_the_same_traceback_has_failed_the_same_way() -> None:
    first = raised("worker-0", 1, "ValueError: bad shape (7)")
    second = replica("worker-1", FinalState.STOPPED, run(143, 2, *traceback("ValueError: bad shape (8)"), stopped=True))
    made = report(first, second)
    assert [(failure.replica, failure.same) for failure in made.failures] == [("worker-0", ("worker-1",))]
    shown = text(made)
    assert "worker-1: the same." in shown
    assert "was stopped" not in shown
    for other in (traceback("ValueError: other"), traceback("ValueError: bad shape (7)", line=8), ("step 1",)):
        stopped = replica("worker-1", FinalState.STOPPED, run(143, 2, *other, stopped=True))
        assert "worker-1 was stopped when the job was over" in text(report(first, stopped))


@pytest.mark.parametrize(
    ("facts", "typed", "words"),
    [
        ({"kernel": "Out of memory: Killed process 7"}, Typed.PROGRAM, "memory ran out: use less memory, run fewer"),
        ({"kernel": "Memory cgroup out of memory: x", "limit": 4 << 30}, Typed.PROGRAM, "or raise --memory."),
        ({"reason": "OOMKilled", "limit": 4 << 30}, Typed.MANIFEST, "or raise resources.limits.memory."),
        ({"peak_memory": 39 << 26, "limit": 40 << 26}, Typed.PROGRAM, "or raise --memory."),
        ({"kernel_silent": True}, Typed.PROGRAM, "The kernel did not kill worker-0 because of memory"),
        ({"kernel_silent": True, "peak_memory": 1 << 26, "limit": 1 << 30}, Typed.PROGRAM, "The kernel did not kill"),
        ({"reason": "Evicted"}, Typed.MANIFEST, "worker-0 was killed from outside: Evicted."),
        ({}, Typed.PROGRAM, "SIGKILL, but the cause is not known"),
    ],
)
def test_a_kill_is_blamed_on_memory_only_where_that_is_known(
    facts: dict[str, object], typed: Typed, words: str
) -> None:
    more = {name: value for name, value in facts.items() if name != "limit"}
    made = report(failed("worker-0", run(137, 0, "x", **more), memory_limit=facts.get("limit")), typed=typed)
    [advice] = made.advice
    assert words in advice
    assert ("because memory ran out" in advice) is ("use less memory" in words or "or raise" in words)


def test_a_segmentation_fault_is_named_with_what_shows_its_line() -> None:
    made = report(failed("worker-0", run(139, 0, "step 1")), typed=Typed.PROGRAM)
    assert "worker-0 failed with exit code 139 (SIGSEGV)." in text(made)
    assert "--env PYTHONFAULTHANDLER=1" in made.advice[0]
    crash = run(139, 0, "Fatal Python error: Segmentation fault", '  File "train.py", line 3 in f')
    assert "PYTHONFAULTHANDLER" not in report(failed("worker-0", crash)).advice[0]
    assert "(signal 31)" not in text(report(failed("worker-0", run(134)))), "a name where there is one"


@pytest.mark.parametrize(
    "lines",
    [
        ("usage: train.py [-h] --steps STEPS", "train.py: error: the following arguments are required: --steps"),
        ("Usage: train.py [OPTIONS]", "Try 'train.py --help' for help.", "", "Error: No such option: --step"),
        ("FATAL Flags parsing error: Unknown command line flag 'step'. Did you mean: steps ?",),
    ],
)
def test_an_error_of_usage_says_where_the_arguments_of_a_program_stand(lines: tuple[str, ...]) -> None:
    [advice] = report(failed("worker-0", run(2, 0, *lines)), typed=Typed.PROGRAM).advice
    assert "after `--`: tfoperator run train.py --workers 2 -- --steps 300" in advice
    assert "`args` of the container" in report(failed("worker-0", run(2, 0, *lines))).advice[0]
    assert "did not accept" not in report(failed("worker-0", run(1, 0, *lines[:-1], "x"))).advice[0]


@pytest.mark.parametrize(
    ("exception", "code", "hint"),
    [
        ("KeyError: 'TF_CONFIG'", "x", True),
        ("ValueError: Cluster spec must be non-empty in `tf.distribute.cluster_resolver.ClusterResolver`.", "x", True),
        ("ValueError: Must specify an explicit `job_name`.", "x", True),
        ("KeyError: 'cluster'", 'hosts = tf_config["cluster"]', True),
        ("TypeError: the JSON object must be str, bytes or bytearray, not NoneType", "json.loads(TF_CONFIG)", True),
        ("KeyError: 'task'", 'row["task"]', False),
    ],
)
def test_a_program_that_needs_a_cluster_and_is_alone_needs_two_workers(exception: str, code: str, hint: bool) -> None:
    lines = ("Traceback (most recent call last):", '  File "train.py", line 7, in main', f"    {code}", exception)
    [advice] = report(failed("worker-0", run(1, 0, *lines)), typed=Typed.PROGRAM).advice
    assert ("--workers 2" in advice) is hint


def test_more_time_is_no_advice_for_what_stands_still() -> None:
    stuck = [replica(f"worker-{n}", FinalState.STOPPED, run(143, 9, "step 7", stopped=True)) for n in (0, 1)]
    over: dict[str, object] = {"outcome": "TimedOut", "typed": Typed.PROGRAM}
    stalled = report(*stuck, **over, stalled="TFJob job has stalled. Behind: worker-1.", behind=("worker-1",)).advice
    assert any("More time will not help" in line and "worker-1" in line for line in stalled)
    assert not any("--timeout" in line for line in stalled)
    [quiet] = report(*stuck, **over, quiet_seconds=50.0).advice
    assert "No replica logged a line in the last 50 s" in quiet
    assert "--stall 2m" in quiet
    for alive in (None, 3.0):
        assert "Give the job more time with --timeout" in report(*stuck, **over, quiet_seconds=alive).advice[0]


def test_a_loss_that_is_no_number_is_the_first_line_also_of_a_success() -> None:
    first_line = "The loss of TFJob ns/job is not a number (NaN or infinite)."
    trained = replica("worker-0", FinalState.SUCCEEDED, run(0, 9, "step 7"))
    assert text(report(trained, outcome="Succeeded", no_number=first_line)) == first_line
    stopped = replica("worker-0", FinalState.STOPPED, run(143, 9, "step 7", stopped=True))
    [advice] = report(stopped, outcome="TimedOut", no_number=first_line).advice
    assert "More time will not help" in advice


WAITS = "CreateSession still waiting for response from worker: /job:evaluator/replica:0/task:0"


def test_a_cluster_that_waits_for_its_evaluator_is_told_of_the_rule() -> None:
    chief = replica("chief-0", FinalState.STOPPED, run(143, 9, "step 0", WAITS, stopped=True))
    advice = report(chief, outcome="TimedOut", evaluator_in_cluster=True).advice
    assert any("spec.evaluatorInCluster to false" in line for line in advice)
    assert not any("evaluatorInCluster" in line for line in report(chief, outcome="TimedOut").advice)
    hung = report(chief, outcome="Interrupted", evaluator_in_cluster=True).advice
    assert any("spec.evaluatorInCluster to false" in line for line in hung), "a person has stopped it, and may wonder"
    works = replica("chief-0", FinalState.STOPPED, run(143, 9, "step 700", stopped=True))
    assert "--timeout" in report(works, outcome="TimedOut", evaluator_in_cluster=True).advice[0]


def test_a_worker_that_starts_again_after_another_has_ended_waits_for_it() -> None:
    ended = replica("worker-1", FinalState.SUCCEEDED, run(0, 5))
    again = replica("worker-0", FinalState.RUNNING, run(1, 6, "step 9"), run(None, 0, "step 0"))
    advice = report(again, ended, outcome="Running", typed=Typed.PROGRAM).advice
    assert any("worker-0 was restarted after worker-1 had ended" in line for line in advice)
    assert any("--restart-scope job" in line for line in advice)
    for others in ([ended, replica("ps-0", FinalState.RUNNING, run(None))], [replica("worker-1", FinalState.RUNNING)]):
        assert not any("without end" in line for line in report(again, *others, outcome="Running").advice)
    before = replica("worker-0", FinalState.RUNNING, run(1, 2), run(None))
    assert not any("without end" in line for line in report(before, ended, outcome="Running").advice)
    assert not any("without end" in line for line in report(again, ended, outcome="Running", together=True).advice)


def test_who_is_killed_after_its_grace_period_is_named_although_the_job_succeeded() -> None:
    chief = replica("worker-0", FinalState.SUCCEEDED, run(0, 5, "trained"))
    held = replica("worker-1", FinalState.STOPPED, run(137, 15, "trained", stopped=True))
    made = report(chief, held, outcome="Succeeded", typed=Typed.PROGRAM)
    shown = text(made)
    assert (
        "worker-1 was stopped when the job was over (it did not end within its grace period, and was killed)" in shown
    )
    assert "--grace" in made.advice[0]
    server = replica("ps-0", FinalState.STOPPED, run(137, 15, stopped=True))
    assert text(report(chief, server, outcome="Succeeded")) == "", "a parameter server has nothing left to do"


def test_the_error_before_a_traceback_that_names_a_port_is_shown() -> None:
    place = "E0000 00:00:1.0 7 add_port.cc:83] Failed to add port to server: No address added for '0.0.0.0:21687'"
    more = ("E0000 00:00:1.0 7 grpc_server_lib.cc:618] UNKNOWN: Could not start gRPC server", "")
    bad = traceback("UnknownError: Could not start gRPC server")[1:]
    shown = text(report(failed("worker-0", run(1, 0, "step 1", place, *more, *bad))))
    assert f"  | {place}\n  | File" in shown
    for before in ("listening at localhost:2222", "E0000 00:00:1.0 7 server.cc:618] Could not start"):
        assert before not in text(report(failed("worker-0", run(1, 0, before, *bad))))
    named = traceback("OSError: cannot bind 0.0.0.0:21687")[1:]
    assert place not in text(report(failed("worker-0", run(1, 0, place, *named))))
