"""The tools that change jobs.

These tools exist only with `--allow-changes`, and show the effect of a change before they make the change. Each tool
makes its changes through `_changed`: without a token, `_changed` returns the effect and a new token; with the token,
`_changed` makes the change.
"""

from __future__ import annotations

import hashlib
import secrets
import shlex
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tfoperator.api.fields.problems import Severity
from tfoperator.api.loading import Manifest, load_manifests, parse_manifests
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.clock import SystemClock
from tfoperator.cli.commands.agents.messages import answers, arguments
from tfoperator.cli.commands.agents.tools.effects import Effects
from tfoperator.cli.commands.agents.tools.runs import StartedRuns, run_command
from tfoperator.cli.commands.agents.tools.scope import JobOf, Scope, Step
from tfoperator.cli.commands.validate import judged
from tfoperator.cli.manifests import in_namespace, title
from tfoperator.cli.page import is_local
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.views.jobs import replicas_text
from tfoperator.kube.protocol.verbs import decode_plain
from tfoperator.sdk import TFJobClient
from tfoperator.sdk.errors import job_errors
from tfoperator.sdk.states import ready_text, replica_key, wanted_replicas

_MOST_JOBS = 20
"""The maximum number of TFJobs of one submission."""


_UNCHANGED = "The cluster is unchanged."


class Changes:
    """The changing tools of one server, with their tokens and the runs that they have started. Thread-safe."""

    def __init__(self, *, key: bytes | None = None) -> None:
        """Initialize. `key` is the secret that signs the tokens (default: a new random key)."""
        self._effects = Effects(key or secrets.token_bytes(32), SystemClock())
        self._lock = threading.Lock()  # guards _effects
        self.runs = StartedRuns()

    def close(self) -> None:
        """Stop the runs that this server has started, and wait until they end."""
        self.runs.stop_all()

    def suspend(self, scope: Scope, asked: arguments.ChangeJob, step: Step) -> answers.ChangeResult:
        """Stop the job's pods until the job is resumed."""
        return self._change_job(
            scope,
            "suspend",
            asked,
            step,
            lambda job: [
                f"The operator will delete the pods of {_words(job)}. The job will have no pods until it is resumed."
            ],
            lambda client, job: client.suspend_job(job.metadata.name, uid=job.metadata.uid),
        )

    def resume(self, scope: Scope, asked: arguments.ChangeJob, step: Step) -> answers.ChangeResult:
        """Resume a suspended job."""
        return self._change_job(
            scope,
            "resume",
            asked,
            step,
            lambda job: [f"The operator will create the pods of {_words(job)}: {replicas_text(job)}."],
            lambda client, job: client.resume_job(job.metadata.name, uid=job.metadata.uid),
        )

    def scale(self, scope: Scope, asked: arguments.Scale, step: Step) -> answers.ChangeResult:
        """Change the job's number of replicas."""

        def effect(job: TFJob) -> list[str]:
            counts = {kind.lower(): count for kind, count in wanted_replicas(job).items()}
            lines = []
            for kind, count in asked.replicas.items():
                if replica_key(job.spec.tf_replica_specs, kind) is None:
                    raise CliError(
                        f"{_words(job)} has no {kind} replicas", f"It has: {replicas_text(job)}.", exit_code=EXIT_FAILED
                    )
                old = counts.get(kind.lower(), 0)
                lines.append(f"{_words(job)} will have {count} {kind} replicas instead of {old}.")
            learns = job.spec.enable_dynamic_worker or job.spec.elastic_policy is not None
            if not learns and job.status.start_time is not None:
                lines.append(
                    "The job has neither spec.enableDynamicWorker nor spec.elasticPolicy, so replicas that run now "
                    "will not get the new number of replicas."
                )
            return lines

        return self._change_job(
            scope,
            "scale",
            asked,
            step,
            effect,
            lambda client, job: client.scale_job(job.metadata.name, dict(asked.replicas), uid=job.metadata.uid),
        )

    def delete(self, scope: Scope, asked: arguments.ChangeJob, step: Step) -> answers.ChangeResult:
        """Delete a job of the cluster, or stop a run that this server has started."""
        run = scope.run_of(asked.job)
        if run is not None:
            effect = [f"The run {run.name} will be stopped gracefully, as after Ctrl-C. Records and logs will be kept."]
            self.runs.check(run.name)
            return self._changed(
                "delete", asked, run.name, effect, lambda: self.runs.stop(run.name), job=run.name, step=step
            )
        return self._change_job(
            scope,
            "delete",
            asked,
            step,
            lambda job: [
                f"{_words(job)} ({job.state.word}, {ready_text(job)} ready) will be deleted, with its pods and "
                "services.",
                "The logs of these pods will be deleted, too, unless the operator has a log archive.",
            ],
            lambda client, job: client.delete_job(job.metadata.name, uid=job.metadata.uid),
        )

    def submit(self, scope: Scope, asked: arguments.Submit, step: Step) -> answers.ChangeResult:
        """Create TFJobs in the cluster."""
        manifests, source = _submitted(scope, asked)
        step("checking the manifest")
        jobs, lines = _checked(manifests)
        with scope.cluster_client(scope.namespace(asked.namespace)) as client:
            if asked.file is None and is_local(client.api):
                raise CliError(
                    "pods of this cluster are processes of this machine, so a manifest could start any program here: "
                    "this tool only takes files that the user named when starting the server",
                    "Use `file` instead of `manifest`.",
                )
            places = [in_namespace(job, scope.namespace(asked.namespace), client.namespace) for job in jobs]
            step("asking the API server for a dry run")
            made = [_create(client, job, place, dry_run=True) for job, place in zip(jobs, places, strict=True)]
            lines = [
                *(
                    f"{_words(job)} will be created: {replicas_text(job)}; images {', '.join(_images(job))}."
                    for job in made
                ),
                *lines,
            ]

            def create() -> None:
                for job, place in zip(jobs, places, strict=True):
                    _create(client, job, place, dry_run=False)

            state = _digest(source)
            return self._changed(
                "submit",
                asked,
                state,
                lines,
                create,
                job=made[0].metadata.name,
                namespace=made[0].metadata.namespace,
                step=step,
            )

    def run(self, scope: Scope, asked: arguments.Run, step: Step) -> answers.ChangeResult:
        """Run, on this machine, a file that the user named when the server started."""
        path = scope.file(asked.file)
        command = run_command(path, asked)
        effect = [f"This command will be started on this machine: tfoperator {shlex.join(command)}"]
        effect.append("The run will end when this server ends. To stop the run before that, use the tool delete.")
        made: list[str] = []

        def start() -> None:
            step("starting the run")
            made.append(self.runs.start(path, command))

        answer = self._changed("run", asked, _digest(path.read_bytes()), effect, start, step=step)
        return msgspec.structs.replace(answer, job=made[0]) if made else answer

    def _change_job(
        self,
        scope: Scope,
        tool: str,
        asked: arguments.ChangeJob,
        step: Step,
        effect: Callable[[TFJob], list[str]],
        change: Callable[[TFJobClient, TFJob], object],
    ) -> answers.ChangeResult:
        step("reading the job")
        with scope.job(asked) as job_of:
            _refuse_runs(job_of, tool)
            job = job_of.client.get_job(job_of.name)
            state = _digest(msgspec.json.encode([job.metadata.uid, job.spec], order="deterministic"))
            return self._changed(
                tool,
                asked,
                state,
                effect(job),
                lambda: change(job_of.client, job),
                job=job_of.name,
                namespace=job.metadata.namespace,
                step=step,
            )

    def _changed(
        self,
        tool: str,
        asked: Any,
        state: str,
        effect: Sequence[str],
        change: Callable[[], object],
        *,
        step: Step,
        job: str = "",
        namespace: str = "",
    ) -> answers.ChangeResult:
        """Return the effect of a change with a new token; if the call has a token, make the change.

        `state` identifies the state of the object to change. Raises ConfirmationRefused if the token is not for these
        arguments and this state.
        """
        plain = msgspec.to_builtins(asked)
        token = plain.pop("token")
        del plain["maxCharacters"]  # the length of an answer changes nothing
        answer = answers.ChangeResult(made=False, effect=tuple(effect), job=job, namespace=namespace)
        with self._lock:
            if token is None:
                return msgspec.structs.replace(answer, token=self._effects.token(tool, plain, state))
            self._effects.redeem(token, tool, plain, state)
        step("making the change")
        change()
        return msgspec.structs.replace(answer, made=True)


def _submitted(scope: Scope, asked: arguments.Submit) -> tuple[list[Manifest], bytes]:
    """Return the objects to submit, and the bytes from which they were read.

    Raises CliError if the call does not have exactly one of `manifest` and `file`, or if the user did not name `file`
    at the server's start. Raises ManifestError or OSError if the objects can't be read.
    """
    if (asked.manifest is None) == (asked.file is None):
        raise CliError("give either `manifest` or `file`")
    if asked.manifest is not None:
        return parse_manifests(asked.manifest), asked.manifest.encode()
    path = scope.file(asked.file or "")
    return load_manifests(path), path.read_bytes()


def _words(job: TFJob) -> str:
    return f"TFJob {job.metadata.namespace}/{job.metadata.name}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _refuse_runs(job_of: JobOf, tool: str) -> None:
    if job_of.run is not None:
        raise CliError(f"{tool} is for jobs of the cluster: {job_of.run.name} is a run of this machine")


def _checked(manifests: Sequence[Manifest]) -> tuple[list[Manifest], list[str]]:
    """Return the TFJobs as v1, and lines for the user: warnings, and the objects that are skipped.

    Raises CliError if a job is not valid.
    """
    jobs: list[Manifest] = []
    lines: list[str] = []
    bad: list[str] = []
    for manifest in manifests:
        finding = judged(manifest)
        if finding.problems is None:
            lines.append(f"{title(manifest)} is skipped: this tool creates TFJobs only.")
            continue
        jobs.append(msgspec.structs.replace(manifest, obj=finding.conversion.obj))
        for problem in finding.problems:
            (bad if problem.severity is Severity.ERROR else lines).append(
                f"{manifest.place(problem.field)}: {problem.severity}: {problem}"
            )
    if bad:
        raise CliError("\n".join(["the manifest is not valid:", *bad]), _UNCHANGED, exit_code=EXIT_FAILED)
    if not jobs or len(jobs) > _MOST_JOBS:
        raise CliError(f"the input has {len(jobs)} TFJobs, but submit takes 1 to {_MOST_JOBS}", _UNCHANGED)
    return jobs, lines


def _create(client: TFJobClient, manifest: Manifest, place: str, *, dry_run: bool) -> TFJob:
    metadata = manifest.obj.get("metadata") or {}
    with job_errors(place, str(metadata.get("name") or metadata.get("generateName"))):
        body = {**manifest.obj, "metadata": {**metadata, "namespace": place}}
        made = client.api.create(TFJOBS, place, body, decode_plain, dry_run=dry_run)
    return decode_tfjob(msgspec.json.encode(made))


def _images(job: TFJob) -> list[str]:
    """Return the images of a job's containers, each once."""
    images: dict[str, None] = {}
    for spec in job.spec.tf_replica_specs.values():
        template: Any = msgspec.json.decode(spec.template) if spec is not None and spec.template else {}
        for container in ((template or {}).get("spec") or {}).get("containers") or ():
            images[str(container.get("image", "-"))] = None
    return list(images)
