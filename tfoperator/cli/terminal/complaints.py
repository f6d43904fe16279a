"""Messages about the failure of a command: a line with the error, a line with the next step, and an exit code.

Without the option `--debug`, users never see a traceback. Errors in the input are `CliError` (exit 2 by default). Any
other error is a bug: its traceback goes to a file that the message names.

This module imports the packages whose errors it handles. These imports take time, so other modules import this module
only after an error.
"""

from __future__ import annotations

import errno
import os
import tempfile
import traceback

from tfoperator.api.kueue.queues import JOB_UID_LABEL
from tfoperator.api.loading import ManifestError
from tfoperator.cli.terminal.errors import EXIT_BUG, EXIT_FAILED, EXIT_TIMEOUT, CliError
from tfoperator.cli.terminal.output import note
from tfoperator.kube.protocol.errors import ConfigError, ForbiddenError, KubeError, TransportError, UnauthorizedError
from tfoperator.local.run.kept import KUBECONFIG, LATEST, RUNS
from tfoperator.sdk import JobAlreadyExists, JobFailed, JobNotFound, JobQueued, QueueState, WaitTimeout
from tfoperator.sdk import errors as sdk


def explained(error: Exception) -> CliError | None:
    """Return the CliError for an error of another package. Return None for an unexpected error, which is a bug."""
    match error:
        case CliError():
            return error
        case ManifestError():
            return CliError(str(error))
        case ConfigError():
            return CliError(str(error), _ways_to_a_cluster())
        case TransportError():
            return CliError(str(error), "Is the API server running? To check: kubectl version", exit_code=EXIT_FAILED)
        case UnauthorizedError():
            hint = "Renew the credentials of your user in the kubeconfig. To check: kubectl auth whoami"
            return CliError(str(error), hint, exit_code=EXIT_FAILED)
        case ForbiddenError():
            return CliError(
                str(error), "Ask the administrators of the cluster for this permission.", exit_code=EXIT_FAILED
            )
        case KubeError():
            return CliError(str(error), exit_code=EXIT_FAILED)
        case FileNotFoundError() if not _is_somewhere():
            return CliError("the current directory has been deleted", 'Change to a folder that exists: cd "$HOME"')
        case OSError() if error.filename is not None:
            return CliError(f"{os.fsdecode(error.filename)}: {error.strerror}", exit_code=EXIT_FAILED)
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return CliError(f"a file can't be written: {error.strerror}", exit_code=EXIT_FAILED)
    return _about_a_job(error)


def _ways_to_a_cluster() -> str:
    """Return the next steps of a user whose command has found no cluster. A run has its own API server."""
    here = 'tfoperator run FILE, or eval "$(tfoperator local up)" before this command'
    hint = f"Set KUBECONFIG or --kubeconfig. To work on this machine without a cluster: {here}. "
    way = RUNS / LATEST / KUBECONFIG
    if not way.is_file():
        return hint + "To list the runs of this folder: tfoperator runs"
    return f"{hint}A run of this folder is in progress. For its jobs, add: --kubeconfig {way}"


def _is_somewhere() -> bool:
    """Return whether the current directory still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _about_a_job(error: Exception) -> CliError | None:

    match error:
        case sdk.NotInstalled():
            hint = "Install the CRD with: tfoperator crd | kubectl apply --server-side -f -"
        case sdk.NamespaceNotFound():
            hint = f"Create it with: kubectl create namespace {error.namespace}"
        case sdk.WaitTimeout():
            return CliError(str(error), f"See why: {_command('describe', error)}", exit_code=EXIT_TIMEOUT)
        case sdk.JobFailed():
            hint = f"See why: {_command('describe', error)}, {_command('logs', error)} --all-replicas"
        case sdk.JobElsewhere():
            hint = "Run the same command with --kubeconfig or --context of that cluster."
        case sdk.JobQueued():
            return CliError(str(error), _queue_hint(error), exit_code=EXIT_FAILED)
        case sdk.JobNotFound() if error.archived:
            logs = _command("logs", error)
            hint = f"To read the logs: {logs} --replica {error.archived[0]}, or {logs} --all-replicas"
        case sdk.JobNotFound():
            hint = f"To list the jobs: tfoperator get -n {error.namespace}"
        case sdk.JobAlreadyExists():
            hint = f"Choose another name, or delete the existing object first: {_command('delete', error)}"
        case sdk.TFJobError():
            hint = ""
        case _:
            return None
    return CliError(str(error), hint, exit_code=EXIT_FAILED)


def _command(verb: str, error: JobNotFound | JobAlreadyExists | JobFailed | JobQueued | WaitTimeout) -> str:
    return f"tfoperator {verb} {error.name} -n {error.namespace}"


def _queue_hint(error: JobQueued) -> str:
    """Return the hint for a job in a queue of Kueue: the command that suspends or resumes the job through Kueue.

    If the job waits only for quota, the hint explains this instead.
    """
    queue, in_namespace = error.queue, f"-n {error.namespace}"
    if error.active and queue.state is not QueueState.INACTIVE and queue.workload:
        describe = _command("describe", error)
        return f"Kueue will start the job when the queue has enough quota. To see why the job waits: {describe}"
    label = f"{JOB_UID_LABEL}={error.job.metadata.uid}"
    # Kubernetes has another Workload kind, in another group.
    kind = "workloads.kueue.x-k8s.io"
    lookup = f"$(kubectl get {kind} {in_namespace} -l {label} -o name)"
    workload = f"{kind} {queue.workload}" if queue.workload else lookup
    change = '{"spec":{"active":true}}' if error.active else '{"spec":{"active":false}}'
    action = "Resume" if error.active else "Suspend"
    return f"{action} the job through Kueue: kubectl patch {workload} {in_namespace} --type merge -p '{change}'"


def complain(error: Exception, *, debug: bool = False) -> int:
    """Print an error and a hint on stderr; return the exit code. With `debug`, also print the traceback."""
    complaint = explained(error)
    if debug:
        traceback.print_exception(error)
    if complaint is None:
        what = f"{type(error).__name__}: {error}"
        note(f"tfoperator: internal error: {what}")
        note("This is a bug in tfoperator." + ("" if debug else f" {_keep_traceback(error)}"))
        return EXIT_BUG
    note(f"tfoperator: {complaint.message}")
    if complaint.hint:
        note(complaint.hint)
    return complaint.exit_code


def _keep_traceback(error: Exception) -> str:
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="tfoperator-bug-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return "For Python's traceback, run the command again with --debug."
    return f"Python's traceback is in {file.name}"
