"""`tfoperator wait NAME --for=...`: waits for a condition of a job; for scripts."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import all_conditions
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.cli.cluster import ClusterOptions, JobName
from tfoperator.cli.recorded import client_of, of_run
from tfoperator.cli.terminal.errors import CliError
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, print_object, say, without_noise
from tfoperator.cli.waiting import Deadline, await_conditions, await_deletion, timeout_seconds
from tfoperator.kube.protocol.errors import NotFoundError
from tfoperator.kube.protocol.verbs import decode_plain
from tfoperator.sdk import TFJobClient

_DELETED = "deleted"


def wait(
    name: JobName,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            help=(
                "Condition to wait for (Succeeded, Failed, Running, Suspended ...), or `deleted`. If the option is "
                "repeated, the wait ends when one of the conditions holds."
            ),
            metavar="WHAT",
        ),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Longest time to wait, e.g. 90s or 1h30m. Default: no limit.")
    ] = None,
    output: ReportOutput = ReportFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Wait until a TFJob, or a run of `tfoperator run`, has succeeded, or until another condition holds.

    Exit code 0: the condition holds. 1: it can't hold any more, for example because the job has failed. 124: the time
    limit is over.
    """
    targets = _targets(target or [ConditionType.SUCCEEDED])
    deadline = Deadline(timeout_seconds(timeout) if timeout else None)
    if targets == [_DELETED] and of_run(name, cluster)[0] is not None:
        raise CliError(
            f"{name}: jobs of a run are never deleted, so this wait would not end", "Wait for another condition."
        )
    with client_of(name, cluster) as (client, name):
        if targets == [_DELETED]:
            await_deletion(client, name, client.namespace, deadline)
            obj: Any = {"name": name, "namespace": client.namespace, "deleted": True}
            reached = "deleted"
        else:
            job = await_conditions(client, name, client.namespace, targets, deadline)
            obj = _whole(client, job) if output is ReportFormat.JSON else None
            true = {condition.type for condition in all_conditions(job.status) if condition.status == "True"}
            reached = next((target for target in targets if target in true), ConditionType.SUCCEEDED)
    if output is ReportFormat.JSON:
        print_object(obj if targets == [_DELETED] else without_noise(obj), output)
    else:
        say(f"tfjob.kubeflow.org/{name} is {reached}")


def _whole(client: TFJobClient, job: TFJob) -> dict[str, Any]:
    """Return the job as the API server has it now.

    The job may be gone already, for example after a short ttlSecondsAfterFinished. Then return the fields of `job`,
    which is the last state that the command has seen.
    """
    meta = job.metadata
    try:
        found = client.api.get(TFJOBS, meta.namespace, meta.name, decode_plain)
    except NotFoundError:
        found = {}
    if found.get("metadata", {}).get("uid") == meta.uid:
        return found
    seen: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(job))
    kind = {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind}
    return kind | {part: seen[part] for part in ("metadata", "spec", "status") if part in seen}


def _targets(given: list[str]) -> list[str]:
    """Return the conditions that the `--for` options name. The form of kubectl, `condition=Succeeded`, also works.

    Raises CliError for an unknown condition, and for `deleted` together with another condition.
    """
    by_spelling = {condition.lower(): str(condition) for condition in ConditionType} | {
        "delete": _DELETED,
        _DELETED: _DELETED,
    }
    targets = []
    for text in given:
        target = by_spelling.get(text.lower().removeprefix("condition=").removesuffix("=true"))
        if target is None:
            raise CliError(
                f"--for={text} is not a condition; the conditions are {', '.join(ConditionType)} and {_DELETED}"
            )
        targets.append(target)
    if _DELETED in targets and len(targets) > 1:
        raise CliError("--for=deleted can't be combined with other conditions")
    return targets
