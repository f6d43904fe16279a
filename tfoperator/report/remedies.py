"""The advice about one thing that was found: a way to start the program, a signal, a peer, the time. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfoperator.report.blame import LAST_LINES, FailedRun
from tfoperator.report.facts import FinalState, JobFacts, ReplicaFacts, Typed

_NO_TF_CONFIG = re.compile(
    r"KeyError: ['\"]TF_CONFIG['\"]"
    r"|Cluster spec must be non-empty|Must specify an explicit `job_name`"  # TensorFlow's strategies and its Server
)
_NO_CLUSTER = re.compile(r"KeyError: '(?:cluster|task)'|JSON object must be str, bytes or bytearray, not NoneType")
_READS_CLUSTER = re.compile(r"tf_?config|cluster", re.IGNORECASE)
"""Matches a line of code that reads TF_CONFIG. Without such a line, an error of `_NO_CLUSTER` may be about anything."""
_USAGE = re.compile(r"^[Uu]sage: ")
_USAGE_ERROR = re.compile(r"^\S+: error: |^Error: |^FATAL Flags parsing error: ")  # argparse, click, absl
_FAULT = "Fatal Python error: "
"""Python's first word where `PYTHONFAULTHANDLER` is set."""
_NEARLY = 0.9
"""A killed process that used this share of its memory limit probably needed more."""
TOGETHER = {
    Typed.MANIFEST: "set spec.runPolicy.restartScope to Job",
    Typed.PROGRAM: "add --restart-scope job",
    Typed.FUNCTION: "give restart_together=True",
}
_MEMORY = {
    Typed.MANIFEST: "resources.limits.memory",
    Typed.PROGRAM: "--memory",
    Typed.FUNCTION: "the machine's memory",
}
_STALL_FOUND = " To have a job without progress named while it runs, with who is behind and all stacks,"
_STALL = {
    Typed.MANIFEST: f"{_STALL_FOUND} set spec.runPolicy.progressDeadlineSeconds.",
    Typed.PROGRAM: f"{_STALL_FOUND} add --stall 2m.",
    Typed.FUNCTION: "",
}


def about_the_program(facts: JobFacts, failed: Sequence[FailedRun], words: Sequence[str]) -> str:
    """Return advice if the program failed because of how it was started; "" if that is not the cause.

    It had too few replicas for a cluster, or did not accept its arguments.
    """
    found = failed[0].traceback if failed else None
    code = next((frame.code for frame in reversed(found.user_frames)), "") if found is not None else ""
    if len(facts.replicas) == 1 and any(
        _NO_TF_CONFIG.search(line) or (_NO_CLUSTER.search(line) and _READS_CLUSTER.search(code)) for line in words
    ):
        more = "run it with --workers 2" if facts.typed is Typed.PROGRAM else "run two replicas or more"
        return (
            "A job of one replica has no TF_CONFIG, for it has no peers. A program that needs a cluster needs two "
            f"replicas: {more}. One that can train alone reads it by os.environ.get('TF_CONFIG')."
        )
    if any(map(_USAGE_ERROR.search, words)) and any(
        _USAGE.search(line) or line.startswith("FATAL Flags") for line in words
    ):
        where = {
            Typed.MANIFEST: "They are `args` of the container `tensorflow`.",
            Typed.PROGRAM: "They stand after `--`: tfoperator run train.py --workers 2 -- --steps 300.",
            Typed.FUNCTION: "A function has no command line: give it the values as parameters.",
        }
        return f"The program did not accept its arguments, as its last lines say. {where[facts.typed]}"
    return ""


def about_time(facts: JobFacts) -> str:
    """Return advice for a run that reached its time limit; "" if `about_an_evaluator` explains it."""
    if any(about_an_evaluator(facts)):
        return ""
    if facts.no_number:
        return "More time will not help: a loss that is not a number stays so."
    behind = f" for {', '.join(facts.behind)}" if facts.behind else ""
    where = "see above where each replica was: its last line, and its log"
    if facts.stalled:
        return f"More time will not help, for it had stalled: look{behind} at the stacks and the last lines above."
    if facts.quiet_seconds is not None and facts.quiet_seconds >= _QUIET and len(facts.replicas) > 1:
        return (
            f"No replica had logged a line in the last {facts.quiet_seconds:.0f} s, so more time may not help: "
            f"{where}.{_STALL[facts.typed]}"
        )
    option = "timeout=SECONDS" if facts.typed is Typed.FUNCTION else "--timeout"
    return f"Give it more time with {option}, or {where}."


_QUIET = 30.0
"""Seconds without a line of any replica after which advice is given: an epoch of a small model is shorter."""


def about_an_evaluator(facts: JobFacts) -> Iterator[str]:
    """Yield the remedy for a job whose servers wait for its evaluator, if TF_CONFIG's cluster has an evaluator."""
    waits = any(
        "/job:evaluator" in line for one in facts.replicas for run in one.runs[-1:] for line in run.tail[-LAST_LINES:]
    )
    if not facts.evaluator_in_cluster or not (waits or facts.stalled or (facts.quiet_seconds or 0) >= _QUIET):
        return
    yield (
        "The cluster in TF_CONFIG has the evaluator, and a tf.train.Server waits until all of its cluster answer, "
        "which an evaluator never does: set spec.evaluatorInCluster to false, as TensorFlow's own rule is."
    )


def about_peers(facts: JobFacts, failed: Sequence[FailedRun]) -> Iterator[str]:
    """Yield the remedy for replicas that were restarted without the other replicas that they need."""
    if facts.together:
        return
    if failed and failed[0].lost_by:
        yield (
            "The workers of a collective (MultiWorkerMirroredStrategy, JAX) fail when one of them is lost: "
            f"{TOGETHER[facts.typed]}, so that all start again together."
        )
        return
    lone = lone_restart(facts.replicas)
    if lone and facts.outcome not in ("Succeeded", "Failed"):
        yield (
            f"{lone[0]} was started again after {lone[1]} had ended. If they train together "
            f"(MultiWorkerMirroredStrategy, JAX), it waits for {lone[1]} for ever: {TOGETHER[facts.typed]}, so that "
            "all start again together."
        )


def lone_restart(replicas: Sequence[ReplicaFacts]) -> tuple[str, str] | None:
    """Return the names of a replica that was started again, and of another replica that had ended well before.

    Returns None if there is no such replica, or if the job has parameter servers, which keep the trained model.
    """
    if any(one.name.startswith("ps-") for one in replicas):
        return None
    ended = {
        one.name: one.last_run.ended
        for one in replicas
        if one.state is FinalState.SUCCEEDED and one.last_run is not None and one.last_run.ended is not None
    }
    for one in replicas:
        lost = one.runs[-2].ended if len(one.runs) > 1 and one.name not in ended else None
        for other, end in ended.items():
            if lost is not None and not other.startswith("evaluator-") and end <= lost:
                return one.name, other
    return None


def about_killed_at_the_end(facts: JobFacts) -> Iterator[str]:
    """Yield a note about replicas that did not end in time when the job had succeeded."""
    killed = [
        one.name
        for one in facts.replicas
        if one.last_run is not None and one.last_run.outlasted_its_grace and not one.name.startswith("ps-")
    ]
    if not killed:
        return
    names = ", ".join(killed[:5]) + (" and others" if len(killed) > 5 else "")
    longer = {
        Typed.MANIFEST: "terminationGracePeriodSeconds gives more time; spec.successPolicy AllWorkers waits for all",
        Typed.PROGRAM: "--grace gives more time",
        Typed.FUNCTION: "a function that returns soon after the first one's end is not killed",
    }
    yield (
        f"The job had succeeded with its first worker, and {names} went on until the grace period was over. "
        f"If it had still to save something, {longer[facts.typed]}."
    )


def about_a_kill(facts: JobFacts, killed: FailedRun) -> str:
    """Return the remedy for a process that SIGKILL ended."""
    run, limit = killed.run, killed.replica.memory_limit
    is_full = limit is not None and run.peak_memory is not None and run.peak_memory >= _NEARLY * limit
    if run.kernel or run.reason == "OOMKilled" or is_full:
        more = f"raise {_MEMORY[facts.typed]}" if limit is not None else "give the machine more"
        return f"It was killed because memory ran out: let it need less, run fewer replicas at a time, or {more}."
    if run.reason and run.reason not in ("Error", "Completed"):
        return f"It was killed from outside: {run.reason}. The events of the job and of its pod say more."
    if run.kernel_silent:
        return (
            "It was killed from outside by SIGKILL, and not by the kernel for want of memory, for its log has no word "
            "of it: by a person or another program (kill -9), or by a service that watches memory, such as "
            "systemd-oomd (journalctl -u systemd-oomd)."
        )
    return (
        "It was killed from outside by SIGKILL; by whom is not known. If the kernel did it, memory ran out, and its "
        "log has a line about it (`dmesg`, as root; the reason OOMKilled in a cluster). Else it was a person or "
        "another program."
    )


def about_a_crash(facts: JobFacts, words: Sequence[str]) -> str:
    """Return the remedy for a segmentation fault."""
    if any(_FAULT in line for line in words):
        return "Native code crashed (SIGSEGV): the last lines have the line of Python that called it."
    how = {
        Typed.MANIFEST: "set the variable PYTHONFAULTHANDLER to 1 in the container's env",
        Typed.PROGRAM: "add --env PYTHONFAULTHANDLER=1",
        Typed.FUNCTION: "set os.environ['PYTHONFAULTHANDLER'] = '1'",
    }
    return (
        f"Native code crashed (SIGSEGV), of which Python logs nothing: {how[facts.typed]} and run it again, and the "
        "log ends with the line of Python that called it."
    )
