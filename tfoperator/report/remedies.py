"""Functions that return advice about a single problem, such as wrong arguments, a kill or a time limit. Pure."""

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
"""A pattern for a line of code that reads TF_CONFIG. An error that matches `_NO_CLUSTER` (KeyError: 'task') counts only
if the line of code in its traceback matches this pattern.
"""
_USAGE = re.compile(r"^[Uu]sage: ")
_USAGE_ERROR = re.compile(r"^\S+: error: |^Error: |^FATAL Flags parsing error: ")  # argparse, click, absl
_FAULT = "Fatal Python error: "
"""The beginning of Python's message about a crash, if `PYTHONFAULTHANDLER` is set."""
_NEARLY = 0.9
"""If a killed process had used at least this share of its memory limit, it probably needed more memory."""
TOGETHER = {
    Typed.MANIFEST: "set spec.runPolicy.restartScope to Job",
    Typed.PROGRAM: "add --restart-scope job",
    Typed.FUNCTION: "set restart_together=True",
}
_MEMORY = {
    Typed.MANIFEST: "resources.limits.memory",
    Typed.PROGRAM: "--memory",
    Typed.FUNCTION: "the machine's memory",
}
_STALL_FOUND = " To let the operator report a job without progress (a condition, the slowest replicas, all stacks),"
_STALL = {
    Typed.MANIFEST: f"{_STALL_FOUND} set spec.runPolicy.progressDeadlineSeconds.",
    Typed.PROGRAM: f"{_STALL_FOUND} add --stall 2m.",
    Typed.FUNCTION: "",
}


def about_the_program(facts: JobFacts, failed: Sequence[FailedRun], words: Sequence[str]) -> str:
    """Return advice for a program that was started in a wrong way, otherwise "".

    There are two cases: the program needs TF_CONFIG, which a job with a single replica does not have, or it did not
    accept its command-line arguments. `words` are the lines about the failures: exceptions' messages, or log lines.
    """
    traceback = failed[0].traceback if failed else None
    code = next((frame.code for frame in reversed(traceback.user_frames)), "") if traceback is not None else ""
    if len(facts.replicas) == 1 and any(
        _NO_TF_CONFIG.search(line) or (_NO_CLUSTER.search(line) and _READS_CLUSTER.search(code)) for line in words
    ):
        more = "run it with --workers 2" if facts.typed is Typed.PROGRAM else "run two replicas or more"
        return (
            "A job of one replica has no TF_CONFIG, because there are no other replicas. A program that needs a "
            f"cluster needs two replicas: {more}. A program that can train alone should read the variable by "
            "os.environ.get('TF_CONFIG')."
        )
    if any(map(_USAGE_ERROR.search, words)) and any(
        _USAGE.search(line) or line.startswith("FATAL Flags") for line in words
    ):
        where = {
            Typed.MANIFEST: "The arguments are in `args` of the container `tensorflow`.",
            Typed.PROGRAM: "Put the arguments after `--`: tfoperator run train.py --workers 2 -- --steps 300.",
            Typed.FUNCTION: "A function has no command line: give it the values as parameters.",
        }
        return f"The program did not accept its arguments (see the last lines of its log). {where[facts.typed]}"
    return ""


def about_time(facts: JobFacts) -> str:
    """Return advice for a job that did not end within its time limit.

    Return "" if `about_an_evaluator` already gives advice for this job.
    """
    if any(about_an_evaluator(facts)):
        return ""
    if facts.no_number:
        return "More time will not help: after the loss has become NaN or infinite, it stays so."
    behind = f" for {', '.join(facts.behind)}" if facts.behind else ""
    where = "read its last line above, and its log"
    if facts.stalled:
        return (
            f"More time will not help, because the job was stalled: read the stacks{behind} and the last lines above."
        )
    if facts.quiet_seconds is not None and facts.quiet_seconds >= _QUIET and len(facts.replicas) > 1:
        return (
            f"No replica logged a line in the last {facts.quiet_seconds:.0f} s, so more time may not help. To see "
            f"how far each replica had come, {where}.{_STALL[facts.typed]}"
        )
    option = "timeout=SECONDS" if facts.typed is Typed.FUNCTION else "--timeout"
    return f"Give the job more time with {option}. To see how far each replica had come, {where}."


_QUIET = 30.0
"""If no replica has written a log line for this many seconds, the job probably hangs. An epoch of a small model is
shorter.
"""


def about_an_evaluator(facts: JobFacts) -> Iterator[str]:
    """Yield a remedy if the cluster in TF_CONFIG contains an evaluator, and the other replicas seem to wait for it."""
    waits = any(
        "/job:evaluator" in line
        for replica in facts.replicas
        for run in replica.runs[-1:]
        for line in run.tail[-LAST_LINES:]
    )
    if not facts.evaluator_in_cluster or not (waits or facts.stalled or (facts.quiet_seconds or 0) >= _QUIET):
        return
    yield (
        "TF_CONFIG contains the evaluator as a part of the cluster. A tf.train.Server waits until all members of the "
        "cluster answer, but an evaluator never answers: set spec.evaluatorInCluster to false, which follows "
        "TensorFlow's own rule."
    )


def about_peers(facts: JobFacts, failed: Sequence[FailedRun]) -> Iterator[str]:
    """Yield a remedy if a replica was restarted alone, although workers of a collective must restart together."""
    if facts.together:
        return
    if failed and failed[0].lost_by:
        yield (
            "The workers of a collective (MultiWorkerMirroredStrategy, JAX) fail when one of them is lost: "
            f"{TOGETHER[facts.typed]}, so that all workers restart together."
        )
        return
    lone = lone_restart(facts.replicas)
    if lone and facts.outcome not in ("Succeeded", "Failed"):
        yield (
            f"{lone[0]} was restarted after {lone[1]} had ended. If they train together "
            f"(MultiWorkerMirroredStrategy, JAX), {lone[0]} waits for {lone[1]} without end: "
            f"{TOGETHER[facts.typed]}, so that all workers restart together."
        )


def lone_restart(replicas: Sequence[ReplicaFacts]) -> tuple[str, str] | None:
    """Return the names of a replica that was restarted, and of another replica that had succeeded before the restart.

    The first replica waits for the second forever, if both train together. Return None if there is no such pair, or if
    the job has parameter servers: then workers don't wait for each other.
    """
    if any(replica.name.startswith("ps-") for replica in replicas):
        return None
    ended = {
        replica.name: replica.last_run.ended
        for replica in replicas
        if replica.state is FinalState.SUCCEEDED and replica.last_run is not None and replica.last_run.ended is not None
    }
    for replica in replicas:
        lost = replica.runs[-2].ended if len(replica.runs) > 1 and replica.name not in ended else None
        for other, end in ended.items():
            if lost is not None and not other.startswith("evaluator-") and end <= lost:
                return replica.name, other
    return None


def about_killed_at_the_end(facts: JobFacts) -> Iterator[str]:
    """Yield a note about replicas that were killed after the job had succeeded, because they did not end in time."""
    killed = [
        replica.name
        for replica in facts.replicas
        if replica.last_run is not None and replica.last_run.outlasted_its_grace and not replica.name.startswith("ps-")
    ]
    if not killed:
        return
    names = ", ".join(killed[:5]) + (" and others" if len(killed) > 5 else "")
    longer = {
        Typed.MANIFEST: "set a longer terminationGracePeriodSeconds; or set spec.successPolicy to AllWorkers, to wait "
        "for all workers",
        Typed.PROGRAM: "set a longer --grace",
        Typed.FUNCTION: "let the function return soon after the first worker has ended",
    }
    yield (
        f"The job succeeded when its first worker had succeeded. After that, {names} did not end within the grace "
        f"period, and had to be killed. If a killed replica still had to save something, {longer[facts.typed]}."
    )


def about_a_kill(facts: JobFacts, killed: FailedRun) -> str:
    """Return the remedy for a process that was killed by SIGKILL, for example because memory ran out."""
    run, name, limit = killed.run, killed.replica.name, killed.replica.memory_limit
    is_full = limit is not None and run.peak_memory is not None and run.peak_memory >= _NEARLY * limit
    if run.kernel or run.reason == "OOMKilled" or is_full:
        more = f"raise {_MEMORY[facts.typed]}" if limit is not None else "use a machine with more memory"
        return f"{name} was killed because memory ran out: use less memory, run fewer replicas at a time, or {more}."
    if run.reason and run.reason not in ("Error", "Completed"):
        return f"{name} was killed from outside: {run.reason}. For more, see the events of the job and of its pod."
    if run.kernel_silent:
        return (
            f"{name} was killed by SIGKILL. The kernel did not kill {name} because of memory: the kernel's log has no "
            f"line about {name}. A person or another program killed {name} (kill -9), or a service that watches "
            "memory, such as systemd-oomd (journalctl -u systemd-oomd)."
        )
    return (
        f"{name} was killed by SIGKILL, but the cause is not known. If memory ran out, the kernel killed {name}, and "
        "the kernel's log has a line about this (`dmesg`, as root; the reason OOMKilled in a cluster). Otherwise a "
        f"person or another program killed {name}."
    )


def about_a_crash(facts: JobFacts, words: Sequence[str]) -> str:
    """Return the remedy for a segmentation fault. `words` are as in `about_the_program`."""
    if any(_FAULT in line for line in words):
        return "Native code crashed (SIGSEGV): the last lines show the line of Python that called the native code."
    how = {
        Typed.MANIFEST: "set the variable PYTHONFAULTHANDLER to 1 in the container's env",
        Typed.PROGRAM: "add --env PYTHONFAULTHANDLER=1",
        Typed.FUNCTION: "set os.environ['PYTHONFAULTHANDLER'] = '1'",
    }
    return (
        f"Native code crashed (SIGSEGV), and Python does not log such a crash: {how[facts.typed]} and run the job "
        "again. Then the log ends with the line of Python that called the native code."
    )
