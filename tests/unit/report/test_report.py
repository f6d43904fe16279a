import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tfoperator.api.v1.job_conditions import ACTIVE_TOO_LONG
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.report.facts import POD_GONE, FinalState, JobFacts, ReplicaFacts, RunFacts, Typed
from tfoperator.report.job import facts_of_job
from tfoperator.report.report import Report, make_report
from tfoperator.report.text import names_in_short, report_lines

BEGIN = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def traceback(exception: str, line: int = 7) -> tuple[str, ...]:
    return (
        "step 119",
        "Traceback (most recent call last):",
        f'  File "train.py", line {line}, in main',
        "    train()",
        '  File "/x/site-packages/keras/src/t.py", line 3, in fit',
        "    self.step()",
        '  File "model.py", line 9, in call',
        "    return x / 0",
        exception,
    )


def run(code: int | None, seconds: float = 0, *tail: str, **more: object) -> RunFacts:
    ended = None if code is None else BEGIN + timedelta(seconds=seconds)
    return msgspec.structs.replace(RunFacts(exit_code=code, ended=ended, tail=tail, log="x.log"), **more)


def replica(name: str, state: FinalState, *runs: RunFacts, **more: object) -> ReplicaFacts:
    return msgspec.structs.replace(ReplicaFacts(name=name, state=state, runs=runs), **more)


def failed(name: str, *runs: RunFacts, **more: object) -> ReplicaFacts:
    return replica(name, FinalState.FAILED, *runs, **more)


def raised(name: str, when: float, exception: str, line: int = 7) -> ReplicaFacts:
    """A replica that has ended with this exception."""
    return failed(name, run(1, when, *traceback(exception, line)))


def report(*replicas: ReplicaFacts, **more: object) -> Report:
    facts = JobFacts(namespace="ns", name="job", outcome="Failed", replicas=replicas)
    return make_report(msgspec.structs.replace(facts, **more))


def text(of: Report) -> str:
    return "\n".join(report_lines(of))


def test_the_first_to_end_of_two_at_once_is_the_culprit_not_who_complains_and_like_failures_are_told_once() -> None:
    made = report(raised("worker-0", 9, "ValueError: later"), raised("worker-1", 3, "ValueError: first"))
    assert [failure.replica for failure in made.failures] == ["worker-1", "worker-0"]
    complains = raised("worker-0", 0, "UnavailableError: Connection reset by peer")
    for later, culprit in ((1, "worker-1"), (60, "worker-0")):
        made = report(complains, raised("worker-1", later, "ZeroDivisionError: division by zero"))
        assert made.culprit.replica == culprit
    bad = [raised(f"worker-{n}", n / 10, f"ValueError: shard {n}") for n in range(5)]
    made = report(*bad, raised("worker-5", 1, "ValueError: shard 5", line=8))
    alike = ("worker-1", "worker-2", "worker-3", "worker-4")
    assert [(failure.replica, failure.same) for failure in made.failures] == [("worker-0", alike), ("worker-5", ())]
    assert "worker-1..4: the same." in text(made)


def test_user_frames_are_shown_and_libraries_folded_or_without_a_traceback_the_last_lines_and_it_is_json() -> None:
    made = report(raised("worker-0", 0, "ValueError: x"))
    shown = text(made)
    assert 'File "train.py", line 7, in main' in shown
    assert "(1 call in keras)" in shown
    assert "site-packages" not in shown
    assert "step 119" not in shown
    assert msgspec.json.decode(msgspec.json.encode(made))["failures"][0]["traceback"]["exception"] == "ValueError: x"
    made = report(failed("worker-0", run(3, 0, *(f"line {n}" for n in range(50)))))
    assert made.culprit.last_lines == tuple(f"line {n}" for n in range(30, 50))
    assert "worker-0 failed with exit code 3." in text(made)
    assert "It has written no log." in text(report(failed("worker-0", run(139))))


def test_what_the_others_did_is_told_in_groups_with_short_names_and_several_whose_pods_are_gone_as_several() -> None:
    made = report(
        failed("worker-0", run(1, 0, "boom")),
        replica("worker-1", FinalState.STOPPED, run(143, 1, "step 10", stopped=True)),
        replica("worker-2", FinalState.STOPPED, run(143, 1, "step 11", stopped=True)),
        replica("ps-0", FinalState.WAITING, detail="ImagePullBackOff"),
    )
    shown = text(made)
    assert "worker-1, worker-2 were stopped when the job was over; last line: step 10" in shown
    assert "ps-0 waits: ImagePullBackOff" in shown
    assert names_in_short(["worker-1", "worker-2", "worker-3", "worker-7", "ps-0"]) == "worker-1..3, worker-7, ps-0"
    assert names_in_short(["worker-0", "worker-1", "odd"]) == "worker-0, worker-1, odd"
    gone = [replica(f"worker-{n}", FinalState.STOPPED, run(143, stopped=True), detail=POD_GONE) for n in (1, 2)]
    bad = failed("worker-0", run(1, 1, "ValueError"))
    assert "worker-1, worker-2 were stopped when the job was over (their pods are gone)" in text(report(bad, *gone))
    assert "worker-1 was stopped when the job was over (its pod is gone)" in text(report(bad, gone[0]))


def test_three_failures_alike_in_a_row_are_deterministic_where_they_are_started_again() -> None:
    runs = [run(1, n, *traceback("ValueError: x")) for n in range(3)]
    made = report(failed("worker-0", *runs, restart_policy="OnFailure"))
    assert any("deterministic" in line and "backoffLimit (for example to 3" in line for line in made.advice)
    bounded = report(failed("worker-0", *runs, restart_policy="Always"), backoff_limit=9)
    assert any("backoffLimit is 9" in line for line in bounded.advice)
    for other in (
        failed("worker-0", *runs[:2], restart_policy="OnFailure"),
        failed("worker-0", *runs, restart_policy="Never"),
        failed("worker-0", run(1, 0, "other"), *runs[1:], restart_policy="OnFailure"),
    ):
        assert not any("deterministic" in line for line in report(other).advice)


def test_a_crash_loop_is_told_while_the_job_runs_also_if_only_its_last_end_is_known() -> None:
    runs = [run(1, n, *traceback("ValueError: x")) for n in range(3)]
    looping = replica("worker-0", FinalState.RUNNING, *runs, run(None), restart_policy="OnFailure")
    made = report(looping, outcome="Running")
    assert made.culprit.times == 3
    assert any("deterministic" in line for line in made.advice)
    last = msgspec.structs.replace(looping, runs=(runs[0], run(None)), restarts=5)
    made = report(last, outcome="Running")
    assert made.culprit.restarts == 5
    assert any("restarted 5 times" in line and "probably deterministic" in line for line in made.advice)
    assert report(msgspec.structs.replace(last, restarts=1), outcome="Running").failures == ()
    assert report(msgspec.structs.replace(last, disruptions=4), outcome="Running").failures == (), (
        "it was taken, mostly"
    )
    over = text(report(failed("worker-0", *runs, restart_policy="OnFailure"), outcome="TimedOut"))
    assert ("deterministic" in over, "--timeout" in over) == (True, False), "more time would not help"


def test_what_a_replica_has_got_over_is_a_restart_and_those_are_told_in_order_of_time_and_counted() -> None:
    made = report(replica("worker-0", FinalState.RUNNING, run(1, 0, *traceback("ValueError: x")), run(None)))
    assert made.failures == ()
    assert [(restart.replica, restart.cause) for restart in made.restarts] == [
        ("worker-0", "exit code 1: ValueError: x")
    ]
    often = failed("worker-1", *(run(1, n, "c") for n in range(30)), restarts=40)
    made = report(failed("worker-0", run(1, 20, "a"), run(137, 40, "b"), restarts=1), often)
    assert (made.restarts_in_all, len(made.restarts)) == (41, 20)
    assert made.restarts == tuple(sorted(made.restarts, key=lambda restart: restart.when or BEGIN))
    assert "without 21 earlier or unknown restarts" in text(made)


def test_memory_and_the_kernels_word_are_told_and_on_a_full_disk_nobody_is_told_to_correct_the_program() -> None:
    gib = 1 << 30
    bad = run(137, 0, "x", peak_memory=2 * gib, kernel="Out of memory: Killed process 7 (python)")
    shown = text(report(failed("worker-0", bad, memory_limit=4 * gib)))
    assert "used up to 2.0 GiB of memory of its limit of 4.0 GiB" in shown
    assert "The kernel says: Out of memory" in shown
    assert "memory ran out" in shown
    assert "(OOMKilled)" in text(report(failed("worker-0", run(137, 0, "x", reason="OOMKilled"))))
    [advice] = report(failed("worker-0", run(1, 0, "step 7")), full_disk="/run").advice
    assert advice.startswith("The disk of /run is full: free some space")
    [advice] = report(raised("worker-0", 0, "OSError: [Errno 28] No space left on device")).advice
    assert advice.startswith("A disk or a quota was full")


def test_a_volume_that_could_not_be_mounted_is_no_fault_of_the_command() -> None:
    line = "tfoperator: a volume can't be mounted at /data: Permission denied"
    [advice] = report(failed("worker-0", run(127, 0, line))).advice
    assert advice.startswith("The log shows why the volume can't be mounted. Give the volume another mountPath")


@pytest.mark.parametrize(
    ("outcome", "stacks", "advice"),
    [
        ("Running", "", "to see where each replica waits: `tfoperator stacks`"),
        (
            "Running",
            "a/0.stacks.txt",
            "the stacks show where each replica waits; `tfoperator stacks` prints new stacks",
        ),
        ("Failed", "a/0.stacks.txt", "the stacks show where each replica waited"),
        (
            "Failed",
            "",
            "no stacks were kept, so it is not known where the job waited; `tfoperator stacks` prints stacks "
            "while a job runs",
        ),
    ],
)
def test_a_stall_is_told_with_its_stacks_and_what_to_do(outcome: str, stacks: str, advice: str) -> None:
    stuck = replica("worker-1", FinalState.RUNNING, run(None, 0, "step 7"), stacks=stacks)
    shown = text(report(stuck, outcome=outcome, stalled="TFJob job has stalled."))
    assert shown.startswith("TFJob job has stalled.")
    assert ("worker-1: a/0.stacks.txt" in shown) is bool(stacks)
    assert "worker-1 runs; last line: step 7" in shown
    assert f"Next: {advice}." in shown


@pytest.mark.parametrize("stalled", ["", "TFJob job has stalled."])
def test_why_no_stacks_could_be_taken_is_said(stalled: str) -> None:
    stuck = replica("worker-0", FinalState.RUNNING, run(None, 0, "step 7"), no_stacks="install py-spy.")
    shown = text(report(stuck, outcome="TimedOut", stalled=stalled))
    problem = "the stacks of the job's threads could not be read: install py-spy."
    assert problem in shown.replace("The stacks", "the stacks")
    assert "were kept" not in shown
    other = replica("worker-1", FinalState.RUNNING, run(None, 0, "step 7"), stacks="a/0.stacks.txt")
    assert "py-spy" not in text(report(stuck, other, outcome="TimedOut", stalled=stalled))


@pytest.mark.parametrize(
    ("over", "advice"),
    [({"overdue": True}, "set a higher spec.runPolicy.activeDeadlineSeconds"), ({"outcome": "TimedOut"}, "--timeout")],
)
def test_of_what_has_run_out_of_time_it_is_told_where_each_replica_was(over: dict[str, object], advice: str) -> None:
    stuck = replica("worker-0", FinalState.STOPPED, run(143, 9, "waiting for the others", stopped=True))
    shown = text(report(stuck, **over))
    assert "worker-0 was stopped when the job was over; last line: waiting for the others\n    x.log" in shown
    assert advice in shown


def test_the_job_itself_says_that_its_deadline_is_over() -> None:
    def overdue(condition: str, message: str) -> bool:
        status = TFJobStatus(conditions=[JobCondition(condition, "True", "TFJobFailed", message)])
        return facts_of_job(TFJob(metadata=ObjectMeta(name="job", namespace="ns"), status=status)).overdue

    assert overdue("Failed", f"Job job has failed because {ACTIVE_TOO_LONG}")
    assert not overdue("Failed", "Job job has failed because it has reached the specified backoff limit")


def test_a_success_has_nothing_to_report_but_replicas_that_could_not_find_each_other() -> None:
    made = report(replica("chief-0", FinalState.SUCCEEDED, run(0, 1, "done")), outcome="Succeeded")
    assert report_lines(made) == []
    names = tuple(f"worker-{index}" for index in range(7))
    made = report(*(replica(name, FinalState.SUCCEEDED, run(0)) for name in names), outcome="Succeeded", apart=names)
    assert "Next: worker-0, worker-1, worker-2, worker-3, worker-4 and others never opened the ports" in text(made)


@pytest.mark.parametrize(
    ("code", "line", "missing"),
    [
        (2, "python: can't open file '/app/train.py': [Errno 2] No such file or directory", "/app/train.py"),
        (1, "FileNotFoundError: [Errno 2] No such file or directory: '/data/mnist.npz'", "/data/mnist.npz"),
        (127, "'bin/train' does not exist (in /home/me)", "bin/train"),
        (127, "program 'horovodrun' not found on PATH (/usr/bin)", "horovodrun"),
        (127, "sh: 1: nvidia-smi: not found", "nvidia-smi"),
        (127, "bash: line 1: train: command not found", "train"),
    ],
)
def test_a_file_that_is_only_in_the_image_is_named(code: int, line: str, missing: str) -> None:
    [advice] = report(failed("worker-0", run(code, 0, "begin", line))).advice
    assert advice.startswith(f"`{missing}` does not exist where the program ran.")
    assert "--runtime docker" in advice
    assert "--workdir" in advice


@pytest.mark.parametrize(
    ("code", "lines", "missing"),
    [
        (1, ["sh: 1: nvidia-smi: not found", "step 1", "sh: 2: train: not found"], "train"),
        (127, ["sh: 1: nvidia-smi: not found", "sh: 2: train: not found", "bye"], "train"),
        (2, ["python: can't open file 'old.py': [Errno 2]", "python: can't open file 'new.py': [Errno 2]"], "new.py"),
        (1, ["sh: 1: nvidia-smi: not found", "step 1", "Segmentation fault"], None),
    ],
)
def test_the_fatal_one_of_several_missing_files_is_named(code: int, lines: list[str], missing: str | None) -> None:
    [advice] = report(failed("worker-0", run(code, 0, *lines))).advice
    named = [name for name in ("nvidia-smi", "train", "old.py", "new.py") if f"`{name}`" in advice]
    assert named == ([] if missing is None else [missing])


@pytest.mark.parametrize(("workers", "hint"), [(1, True), (2, False)])
def test_a_program_that_wants_a_tf_config_where_there_is_none_is_told_why(workers: int, hint: bool) -> None:
    made = report(*(raised(f"worker-{n}", n, "KeyError: 'TF_CONFIG'") for n in range(workers)))
    assert [("A job of one replica has no TF_CONFIG" in line) for line in made.advice] == [hint]


def test_the_last_line_of_a_replica_is_the_programs_and_not_a_bracket_of_tensorflow() -> None:
    tail = (
        "epoch 3: loss 0.25",
        "2026-01-01 12:00:00.123456: W tensorflow/core/framework/op_kernel.cc:1857] Cancelled: the service is stopped",
        "[[{{node cond/While}}]]",
        "W0000 00:00:1767268800.000000 1234 coordination_service_agent.cc:200] Failed",
        "]",
    )
    stopped = replica("worker-1", FinalState.STOPPED, run(143, 9, *tail, stopped=True))
    shown = text(report(raised("worker-0", 1, "ValueError: x"), stopped))
    assert "last line: epoch 3: loss 0.25" in shown
    only = replica("worker-1", FinalState.STOPPED, run(143, 9, "]", stopped=True))
    assert "last line: ]" in text(report(raised("worker-0", 1, "ValueError: x"), only)), "better than none"


@pytest.mark.parametrize("why", ["[Errno 13] Permission denied: '/x'", "embedded null byte", "[Errno 7] too long"])
def test_a_command_is_blamed_only_where_it_is_what_could_not_be_run(why: str) -> None:
    about = "the `command` of a container" if "denied" in why else "correct the error in the log"
    assert f"Next: {about}" in text(report(failed("worker-0", run(127, 0, f"tfoperator: can't start 'x' in /: {why}"))))
    assert "`command`" not in text(report(failed("worker-0", run(127, 0, f"tfoperator: {why}"))))


@pytest.mark.parametrize("line", ["error 404: not found", "ValueError: label not found", "HTTP: page: not found"])
def test_not_everything_that_is_not_found_is_a_file(line: str) -> None:
    [advice] = report(failed("worker-0", run(1, 0, line))).advice
    assert "does not exist where the program ran" not in advice


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("ValueError: Attempt to convert a value (PerReplica:{", "examples/keras-multi-worker/train.py"),
        ("ValueError: Attempt to convert a value (PerReplica:{", "TF_USE_LEGACY_KERAS=1"),
        ("ValueError: Attempt to convert a value (PerReplica:{", "examples/keras-jax/train.py"),
        (
            "ValueError: To use this dataset, you need to pass this dataset to "
            "ClusterCoordinator.create_per_worker_dataset.",
            "examples/digits/train.py",
        ),
        (
            "ValueError: There is no id for task_type 'ps'",
            "Next: remove the ps: MultiWorkerMirroredStrategy has only workers and a chief",
        ),
        ("ValueError: There is no id for task_type 'evaluator'", "Next: remove the evaluator: "),
    ],
)
def test_common_mistakes_have_an_example_without_them(error: str, words: str) -> None:
    [advice] = report_lines(report(raised("worker-0", 0, error)))[-1:]
    assert words in advice
    assert re.match("Next: (remove|train|schedule) ", advice), "a name keeps its capital letter"


@pytest.mark.parametrize(
    ("typed", "again", "limit", "module", "time"),
    [
        (Typed.MANIFEST, "restartPolicy to OnFailure", "spec.runPolicy.backoffLimit is 3", "`python` is", "--timeout"),
        (Typed.PROGRAM, "--max-restarts 3", "--max-restarts is 3", "`python` is", "--timeout"),
        (Typed.FUNCTION, "max_restarts=3", "max_restarts is 3", "packages_to_install", "timeout=SECONDS"),
    ],
)
def test_advice_is_in_the_words_of_what_was_typed(typed: Typed, again: str, limit: str, module: str, time: str) -> None:
    assert again in report(failed("worker-0", run(1, 0, "odd")), typed=typed).advice[0]
    often = failed("worker-0", *(run(1, at, "odd") for at in range(4)), restart_policy="OnFailure", restarts=3)
    assert limit in report(often, typed=typed, backoff_limit=3).advice[0]
    assert module in report(failed("worker-0", run(1, 0, "No module named 'x'")), typed=typed).advice[0]
    assert time in report(replica("worker-0", FinalState.STOPPED, run(143)), typed=typed, outcome="TimedOut").advice[0]
    lost = "python: can't open file 'a.py': [Errno 2]"
    assert ("--workdir" in report(failed("worker-0", run(2, 0, lost)), typed=typed).advice[0]) is (typed != "function")


SECRET = "hunter2hunter2"


def test_a_report_quotes_no_secret() -> None:
    key = (
        "-----BEGIN PRIVATE KEY-----",
        *[f"MIIEvQIBADANBgkqhkiG9w0B{SECRET}AAAAAAA"] * 30,
        "-----END PRIVATE KEY-----",
    )
    environment = (
        f"HF_TOKEN={SECRET}",
        f'{{"db": {{"password": "{SECRET}"}}}}',
        f"https://me:{SECRET}@example.com/data",
    )
    raising = traceback(f"ConnectionError: postgresql://me:{SECRET}@db/x refused: password={SECRET}")
    before = run(1, 0, *environment, f"RuntimeError: --api-key {SECRET}", *key)
    made = report(
        failed("worker-0", before, run(1, 1, *environment, *raising, *key, f"token: {SECRET}"), restarts=1),
        failed("worker-1", run(2, 1, *key, *environment, kernel=f"killed train.py --token {SECRET}")),
        replica("worker-2", FinalState.STOPPED, run(143, 2, f"Authorization: Bearer {SECRET}")),
        replica("worker-3", FinalState.WAITING, detail=f"exec train.py --password {SECRET}: not found"),
        message=f"it failed with api_key={SECRET}",
        stalled=f"nothing since secret={SECRET}",
    )
    assert SECRET not in msgspec.json.encode(made).decode()
    assert SECRET not in text(made)
    assert "  | ConnectionError: postgresql://db/x refused: password=<masked>" in text(made)
    assert "  | HF_TOKEN=<masked>" in text(made)
    assert made.message == "it failed with api_key=<masked>"


def test_a_report_quotes_ordinary_lines_as_they_are() -> None:
    lines = (
        "step 3, loss=0.123",
        "token_count: 5",
        "commit 4f2c1d0e9b8a7f6e5d4c3b2a1908f7e6d5c4b3a2",
        "",
        "KeyError: 'token'",
    )
    culprit = report(failed("worker-0", run(1, 1, *lines))).culprit
    assert culprit is not None
    assert culprit.last_lines == lines
