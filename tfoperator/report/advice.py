"""The advice for a job that did not succeed. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Sequence

from tfoperator.report.blame import FailedRun
from tfoperator.report.facts import KILLED, JobFacts, Typed
from tfoperator.report.remedies import (
    TOGETHER,
    about_a_crash,
    about_a_kill,
    about_an_evaluator,
    about_killed_at_the_end,
    about_peers,
    about_the_program,
    about_time,
)

_MISSING_FILE = re.compile(
    r"can't open file '(?P<script>[^']+)': \[Errno 2\]"  # Python, of its program
    r"|(?:FileNotFoundError|NotFoundError).*?No such file or directory: '(?P<data>/[^']+)'"
    r"|'(?P<program>[^']*/[^']*)' does not exist \(in "  # from this project, of a command with a path
    r"|program '(?P<command>[^']+)' not found on PATH"
)
_SHELL_MISSES = re.compile(r"^(?:\S*sh|/bin/\S+): (?:line )?(?:\d+: )?(?P<word>[^\s:]+): (?:command )?not found$")
"""A shell's message about a missing command (`sh: 1: foo: not found`). After the message, the shell continues with the
next command, unless `set -e` is set.
"""
_NOT_STARTED = (126, 127)
"""The exit codes of a shell whose last command is not executable (126) or does not exist (127)."""
# Containers that can't start for other reasons, such as a variable that is too long, have the same exit codes. So the
# log must also match this pattern.
_BAD_COMMAND = re.compile(
    r"can't start .*\[Errno (?:2|8|13)\]|\bexec: |[Ee]xec format|[Cc]annot execute|not found|: Permission denied$"
)
_BAD_MOUNT = re.compile(r"^tfoperator: .*can't be mounted at ")
"""A log line of tfoperator: the container could not start, because its volume can't be mounted."""
_NO_SPACE_MESSAGE = "No space left on device"
"""The operating system's message for ENOSPC. Programs in all programming languages print this message."""
_COLLECTIVE = re.compile(r"/job:(?:worker|chief|master)\b|\bCollective|all_?reduce", re.IGNORECASE)
# TensorFlow's message if `fit` of Keras 3 is used with MultiWorkerMirroredStrategy.
_FIT_ON_MANY_WORKERS = re.compile(r"convert a value \(PerReplica|values\.PerReplica'>\) to a Tensor")
# TensorFlow's messages if a strategy does not fit the job's replicas, or is used with a `fit` that does not support it.
_NO_ROLE = re.compile(r"no id for task_type '(?P<role>\w+)'")
_FIT_WITH_SERVERS = "pass this dataset to ClusterCoordinator.create_per_worker_dataset"

_AGAIN = {
    Typed.MANIFEST: "set its restartPolicy to OnFailure, or to ExitCode for exit codes of 128 and more",
    Typed.PROGRAM: "add --max-restarts 3",
    Typed.FUNCTION: "give max_restarts=3",
}
_LIMIT = {
    Typed.MANIFEST: "spec.runPolicy.backoffLimit",
    Typed.PROGRAM: "--max-restarts",
    Typed.FUNCTION: "max_restarts",
}


def advice_for(facts: JobFacts, failed: Sequence[FailedRun], *, repeated: int, all_known: bool = True) -> Iterator[str]:
    """Yield a remedy in one or two sentences, for each problem. The likeliest remedy comes first.

    `failed` are the runs that failed, first the run of the culprit, the replica that caused the other failures.
    `repeated` is how many times in a row the culprit failed in the same way. It is 0 if this is fewer than `IDENTICAL`
    times, or if the culprit's restart policy is neither OnFailure nor Always. If `all_known` is False, some failures
    are unknown: then `repeated` counts all restarts of the culprit, and the advice calls the failure only probably
    deterministic.
    """
    exit_codes, words = tuple(bad.run.exit_code for bad in failed), _words(failed)
    if facts.apart:
        names = ", ".join(facts.apart[:5]) + (" and others" if len(facts.apart) > 5 else "")
        yield (
            f"{names} never opened the ports that TF_CONFIG names for them. Unless something else connects these "
            "replicas, each of them has trained a model of its own, and the replica that saved last has overwritten "
            "the other models. Use a tf.distribute strategy to train one model together "
            "(examples/multi-worker/train.py)."
        )
    if facts.outcome == "Succeeded":
        yield from about_killed_at_the_end(facts)
    else:
        yield from about_an_evaluator(facts)
    if facts.outcome in ("Succeeded", "Interrupted") and not repeated:
        return
    if repeated:
        limit = facts.backoff_limit
        bound = (
            f"{_LIMIT[facts.typed]} is {limit}; with a smaller limit the job ends sooner."
            if limit is not None
            else "Set spec.runPolicy.backoffLimit (for example to 3), so that such a job ends and releases its "
            "machines."
        )
        name = failed[0].replica.name if failed else "The replica"
        why = (
            f"{name} failed {repeated} times in a row in the same way, so the failure is deterministic: another "
            "restart won't help."
            if all_known
            else f"{name} was restarted {repeated} times, and failed again: the failure is probably deterministic."
        )
        yield f"{why} {bound}"
    yield from about_peers(facts, failed)
    yield from _about_stacks(facts)
    remedy = (
        about_the_program(facts, failed, words)
        or _about_the_end(facts, exit_codes, words, repeated=bool(repeated))
        or _about_codes(facts, failed, words, repeated)
    )
    if remedy:
        yield remedy


def _about_the_end(facts: JobFacts, exit_codes: Sequence[int | None], words: Sequence[str], *, repeated: bool) -> str:
    """Return the remedy for a cause, such as a full disk, that the logs or the facts about the job show.

    Return "" if they show no such cause. `words` are the lines about the failures. `repeated` is whether the culprit
    failed several times in a row in the same way.
    """
    missing = missing_file(words, exit_codes)
    if facts.full_disk:
        return (
            f"The disk of {facts.full_disk} is full: free some space there and run the job again. The last lines of "
            "logs and other files may be missing or incomplete."
        )
    if any(map(_BAD_MOUNT.search, words)):
        return (
            "The log shows why the volume can't be mounted. Give the volume another mountPath, or use --runtime docker."
        )
    if any(_NO_SPACE_MESSAGE in line for line in words):
        return "A disk or a quota was full: free some space at the path in the log, and run the job again."
    if any(_FIT_ON_MANY_WORKERS.search(line) for line in words):
        return (
            "Train in one of three ways, because Keras 3 can't `fit` with MultiWorkerMirroredStrategy. With the JAX "
            'backend, Keras 3 can `fit` on several workers: os.environ["KERAS_BACKEND"] = "jax", then '
            "keras.distribution.initialize() (examples/keras-jax/train.py in tfoperator's repository). With Keras 2 "
            "you don't have to change the program: `pip install tf_keras`, and set TF_USE_LEGACY_KERAS=1 in the "
            "environment. Or train the same model with the same optimizer in a short loop of your own "
            "(examples/keras-multi-worker/train.py)."
        )
    if any(_FIT_WITH_SERVERS in line for line in words):
        return (
            "Schedule steps with a ClusterCoordinator, because Keras 3 can't `fit` with ParameterServerStrategy. See "
            "examples/digits/train.py in tfoperator's repository."
        )
    role = next(filter(None, map(_NO_ROLE.search, words)), None)
    if role is not None:
        return (
            f"Remove the {role['role']}: MultiWorkerMirroredStrategy has only workers and a chief. Or use "
            "ParameterServerStrategy (examples/digits/train.py)."
        )
    if missing and facts.typed is Typed.FUNCTION:
        return (
            f"{missing} does not exist on the machine where the function ran. A relative path starts in the current "
            "directory of the program that started the job."
        )
    if missing:
        return (
            f"{missing} does not exist where the program ran. Under `tfoperator run` the program runs on this "
            "machine, where relative paths start in the current directory (or at --workdir): if the file exists only "
            "in the image, add --runtime docker. In a cluster the file must be in the image or on a volume."
        )
    if facts.outcome == "TimedOut" and not repeated:
        return about_time(facts)
    if facts.overdue and not repeated:
        return (
            "If the job was only slow, set a higher spec.runPolicy.activeDeadlineSeconds. To see how far each "
            "replica had come, read its last line above, and its log."
        )
    return ""


def _about_codes(facts: JobFacts, failed: Sequence[FailedRun], words: Sequence[str], repeated: int) -> str:
    """Return the usual remedy for the exit codes of the failed runs. Return "" if there is no such remedy.

    `words` are the lines about the failures. `repeated` is as in `advice_for`.
    """
    exit_codes = tuple(bad.run.exit_code for bad in failed)
    unstarted = any(code in _NOT_STARTED for code in exit_codes)
    if unstarted and (not words or any(map(_BAD_COMMAND.search, words))):
        return (
            "The `command` of a container must be executable, and must exist on this machine (relative paths start "
            "in the current directory) or, with --runtime docker and in a cluster, in the image."
        )
    killed = next((bad for bad in failed if bad.run.exit_code == KILLED), None)
    if killed is not None:
        return about_a_kill(facts, killed)
    if 128 + signal.SIGSEGV in exit_codes:
        return about_a_crash(facts, words)
    if any("No module named" in line for line in words) and facts.typed is Typed.FUNCTION:
        return "Add the missing module to the argument packages_to_install=[...] of create_job."
    if any("No module named" in line for line in words):
        return (
            "Install the missing module: under `tfoperator run` without --runtime docker, `python` is the "
            "interpreter that runs tfoperator, and the image is not used."
        )
    if exit_codes and not repeated:
        is_collective = len(facts.replicas) > 1 and any(map(_COLLECTIVE.search, words)) and not facts.together
        together = f"; {TOGETHER[facts.typed]}, because its workers need each other" if is_collective else ""
        return (
            f"Correct {'the error in the log' if words else 'the program'} and run the job again. To restart a failed "
            f"replica instead, {_AGAIN[facts.typed]}{together}."
        )
    if not exit_codes and facts.late:
        return (
            "Remove the cause that kept the replicas from starting (see the message), or, if they only need more "
            "time, set a higher spec.runPolicy.startDeadlineSeconds."
        )
    if not exit_codes and facts.outcome == "Failed":
        return "Read the conditions and events of the job: tfoperator describe NAME."
    return ""


def _words(failed: Iterable[FailedRun]) -> tuple[str, ...]:
    """Return the lines about the failures, first the lines about the culprit's failure.

    For each failure, the lines are the exception's message, or the log's last lines with the newest line first.
    """
    return tuple(
        line
        for bad in failed
        for line in (bad.message if bad.traceback is not None else reversed(bad.message))
        if line.strip()
    )


def _about_stacks(facts: JobFacts) -> Iterator[str]:
    kept, ended = any(replica.stacks for replica in facts.replicas), facts.outcome != "Running"
    why = next((replica.no_stacks for replica in facts.replicas if replica.no_stacks), "")
    if why and not kept:
        yield f"The stacks of the job's threads could not be read: {why.rstrip('.')}."
    elif not facts.stalled:
        return
    elif kept and ended:
        yield "The stacks show where each replica waited."
    elif kept:
        yield "The stacks show where each replica waits; `tfoperator stacks` prints new stacks."
    elif ended:
        yield (
            "No stacks were kept, so it is not known where the job waited; `tfoperator stacks` prints stacks while a "
            "job runs."
        )
    else:
        yield "To see where each replica waits: `tfoperator stacks`."


def missing_file(words: Sequence[str], exit_codes: Sequence[int | None]) -> str:
    """Return the last file or program that log lines report as missing, in backquotes, or "".

    In `words`, the newest line comes first. A shell continues after a command that it does not find. So its message
    counts only if an exit code is 126 or 127, or if the message is the newest line.
    """
    not_started = any(code in _NOT_STARTED for code in exit_codes)
    for number, line in enumerate(words):
        if match := _MISSING_FILE.search(line):
            return f"`{next(name for name in match.groups() if name)}`"
        if (match := _SHELL_MISSES.search(line)) and (number == 0 or not_started):
            return f"`{match['word']}`"
    return ""
