"""`TFJobClient`: operations on TFJobs for programs, with the method names of the Go operator's TrainingClient."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.retry import retry_on_conflict
from tfoperator.sdk.errors import JobEnded, JobQueued, NoSuchReplica, job_errors
from tfoperator.sdk.functions import DEFAULT_BASE_IMAGE, FunctionJob, JobSource, job_manifest
from tfoperator.sdk.queues import QueueState, job_queue
from tfoperator.sdk.reader import JobReader
from tfoperator.sdk.states import replica_key
from tfoperator.sdk.workdir.delivery import Folder, sweep


class TFJobClient(JobReader):
    """A client for TFJobs; also a context manager. Thread-safe: one per process will do.

    `config_file` and `context` choose the cluster as kubectl's `--kubeconfig` and `--context` do; without them it is
    KUBECONFIG, `~/.kube/config`, or the cluster that this process runs in. `namespace` is for methods called without
    a namespace (default: the context's namespace). `client` uses an existing connection, which `close()` leaves open.
    `archive_dir` is the operator's log archive, a directory or URL (default: `$TFOPERATOR_ARCHIVE_DIR`).

    Errors about a job are `TFJobError`s that name it; others (no connection, no rights) are
    `tfoperator.kube.KubeError`s. The constructor raises `tfoperator.kube.ConfigError`.
    """

    _local: ExitStack | None = None  # ends the control plane of one made by `local`

    @classmethod
    def local(
        cls, run_dir: str | os.PathLike[str] | None = None, *, work_dir: str | os.PathLike[str] | None = None
    ) -> TFJobClient:
        """Return a client with its own control plane in this process: jobs run as processes of this machine.

        This needs neither a cluster nor a kubeconfig. `run_dir` keeps logs and volumes; without it they are deleted by
        `close()`, which stops running jobs. Processes start in `work_dir`, by default the current directory.
        Raises OSError.
        """
        # Imported here: the whole engine.
        from tfoperator.local.controlplane import ControlPlane
        from tfoperator.local.runtime.selection import RuntimeOptions

        with ExitStack() as undo:
            if run_dir is None:
                run_dir = undo.enter_context(TemporaryDirectory(prefix="tfoperator-", ignore_cleanup_errors=True))
            else:
                os.makedirs(run_dir, mode=0o700, exist_ok=True)
            pods = RuntimeOptions(work_dir=None if work_dir is None else Path(work_dir))
            plane = ControlPlane(Path(run_dir), pods=pods, progress=True)
            undo.callback(plane.stop)
            plane.start()
            client = cls(client=plane.client, namespace="default")
            client._local = undo.pop_all()
        return client

    @classmethod
    def of_run(cls, run_dir: str | os.PathLike[str]) -> TFJobClient:
        """Return a client of a run of `tfoperator run`, by its directory: a run that goes on, has ended or has died.

        It reads, and changes nothing. Jobs that have not ended when their run does are Failed; the condition's reason
        is RunTimedOut, RunInterrupted or RunDied. Raises OSError, ValueError for a directory without readable records.
        """
        # Imported here: an API server.
        from tfoperator.local.run.recorded_run import RecordedRun

        with ExitStack() as undo:
            run = undo.enter_context(RecordedRun(Path(run_dir)))
            client = cls(run=run, namespace=run.jobs[0]["namespace"] if run.jobs else "default")
            client._local = undo.pop_all()
        return client

    def close(self) -> None:
        """Close the client; one made by `local` stops its jobs and its control plane."""
        super().close()
        if self._local is not None:
            self._local.close()

    def __enter__(self) -> TFJobClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_job(
        self,
        job: JobSource | None = None,
        name: str | None = None,
        namespace: str | None = None,
        *,
        train_func: Callable[..., Any] | None = None,
        base_image: str = DEFAULT_BASE_IMAGE,
        parameters: Mapping[str, Any] | None = None,
        num_workers: int | None = None,
        num_ps_replicas: int | None = None,
        num_chief_replicas: int | None = None,
        resources_per_worker: Mapping[str, Any] | None = None,
        packages_to_install: Sequence[str] | None = None,
        pip_index_url: str | None = None,
        env_vars: Mapping[str, str] | Sequence[Mapping[str, Any]] | None = None,
        workdir: str | os.PathLike[str] | None = None,
        requirements: str = "",
        dry_run: bool = False,
    ) -> TFJob:
        """Create a job, from a manifest or from a function; return it as stored by the API server.

        `job` is a mapping, a TFJob, a path or YAML text. `namespace` overrides the namespace in `job`, which overrides
        the client's. With `dry_run` the server checks everything but stores nothing.

        `train_func` instead is a self-contained function: it imports its modules inside. Each replica runs its
        source in `base_image` and calls it with `parameters`, a dictionary, as its one argument (without: none at all).
        `resources_per_worker` is like `{"cpu": 2, "memory": "4Gi", "gpu": 1}`; `env_vars` a mapping, or entries as a
        container has them. `packages_to_install` are installed by pip first. One worker unless numbers are given.

        `workdir` is a folder of this machine, of 100 MiB at most: each replica runs its command, or the function, in a
        copy of what git or `.tfoperatorignore` doesn't ignore there, after pip has installed its file `requirements`.

        Raises JobAlreadyExists, JobInvalid, NamespaceNotFound, NotInstalled, FunctionSourceError, WorkdirError,
        `tfoperator.api.loading.ManifestError` for an unreadable file, ValueError for invalid arguments.
        """
        if (job is None) == (train_func is None):
            raise ValueError("give either a job or a train_func: the function itself (train), not its result (train())")
        if train_func is not None:
            if not name:
                raise ValueError("a job from a function needs a name")
            if self._local is not None and packages_to_install:
                raise ValueError(
                    "packages_to_install would change your own Python environment: install the packages yourself, or "
                    "use tfoperator.notebook.run_locally, which creates an environment for the run"
                )
            job = FunctionJob(
                name,
                train_func,
                base_image=base_image,
                parameters=parameters,
                num_workers=num_workers,
                num_ps_replicas=num_ps_replicas,
                num_chief_replicas=num_chief_replicas,
                resources_per_worker=resources_per_worker,
                packages_to_install=packages_to_install,
                pip_index_url=pip_index_url,
                env_vars=env_vars,
            ).manifest()
        assert job is not None
        manifest = job_manifest(job, name)
        metadata = manifest["metadata"]
        where = namespace or metadata.get("namespace") or self.namespace
        manifest["metadata"] = {**metadata, "namespace": where}
        folder = None if workdir is None else Folder(workdir, requirements)
        with job_errors(where, metadata.get("name") or metadata["generateName"]):
            made = self._client.create(
                TFJOBS, where, folder.mounted(manifest) if folder else manifest, decode_tfjob, dry_run=dry_run
            )
        if folder and not dry_run:
            folder.deliver(self._client, made.metadata)
        return made

    def update_job(self, job: JobSource, name: str | None = None, namespace: str | None = None) -> TFJob:
        """Change a job's labels, annotations and spec to those in `job`; fields that it doesn't contain stay unchanged.

        `name` defaults to the name in `job`. Raises JobNotFound, JobInvalid.
        """
        manifest = job_manifest(job, name)
        metadata = manifest["metadata"]
        changes = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        patch = {"metadata": changes, "spec": manifest.get("spec") or {}}
        return self.patch_job(str(metadata["name"]), patch, namespace or metadata.get("namespace"))

    def patch_job(self, name: str, patch: Mapping[str, Any], namespace: str | None = None) -> TFJob:
        """Apply a JSON merge patch: null removes a member. Raises JobNotFound, JobInvalid."""
        where = self._where(namespace)
        with job_errors(where, name):
            return self._client.patch(TFJOBS, where, name, patch, decode_tfjob)

    def delete_job(
        self, name: str, namespace: str | None = None, *, propagation_policy: str = "Background", uid: str = ""
    ) -> None:
        """Delete the job, then its pods and services. Raises JobNotFound. See `wait_for_job_deletion`.

        With `uid`, another job of this name stays: then it raises `tfoperator.kube.protocol.errors.ConflictError`.
        """
        where = self._where(namespace)
        with job_errors(where, name):
            self._client.delete(TFJOBS, where, name, uid=uid, propagation_policy=propagation_policy)
        with suppress(OSError, KubeError):  # of the store: the next one sweeps
            sweep(self._client, where)

    def suspend_job(self, name: str, namespace: str | None = None) -> TFJob:
        """Stop the job's pods until it is resumed. Raises JobNotFound, JobEnded, JobQueued.

        Kueue's own framework would revert it: such a job is stopped through its Workload, which JobQueued names.
        """
        return self._set_suspend(name, namespace, True)

    def resume_job(self, name: str, namespace: str | None = None) -> TFJob:
        """Resume a suspended job. Raises JobNotFound, JobEnded, JobQueued as above."""
        return self._set_suspend(name, namespace, False)

    def scale_job(self, name: str, replicas: int | Mapping[str, int], namespace: str | None = None) -> TFJob:
        """Set the number of replicas: of workers, or by type. Raises JobNotFound, NoSuchReplica, JobEnded.

        Running TensorFlow processes learn about others only if the job has `enableDynamicWorker`.
        """
        wanted = {"Worker": replicas} if isinstance(replicas, int) else dict(replicas)

        def change(job: TFJob) -> dict[str, Any]:
            specs = job.spec.tf_replica_specs
            keys = {kind: replica_key(specs, kind) for kind in wanted}
            missing = [kind for kind, key in keys.items() if key is None]
            if missing:
                what = f"has no {missing[0]} replicas; its types are {', '.join(specs) or 'none'}"
                raise NoSuchReplica(job.metadata.namespace, job.metadata.name, what)
            return {"tfReplicaSpecs": {keys[kind]: {"replicas": count} for kind, count in wanted.items()}}

        return self._change_spec(name, namespace, change)

    def _set_suspend(self, name: str, namespace: str | None, suspend: bool) -> TFJob:
        def change(job: TFJob) -> dict[str, Any]:
            queue = job_queue(self._client, job)
            # Without Kueue a queue's name is only a label.
            if queue is not None and queue.state is not QueueState.NO_KUEUE and not queue.by_operator:
                raise JobQueued(job, queue, active=not suspend)
            return {"runPolicy": {"suspend": suspend}}

        return self._change_spec(name, namespace, change)

    def _change_spec(self, name: str, namespace: str | None, change: Callable[[TFJob], Mapping[str, Any]]) -> TFJob:
        """Patch the spec of a job that has not ended; retry if it was changed in between."""

        def attempt() -> TFJob:
            job = self.get_job(name, namespace)
            end = final_condition(job)
            if end is not None:
                raise JobEnded(job, f"has already ended ({end.type}), so it can't be changed")
            precondition = {"resourceVersion": job.metadata.resource_version}
            return self.patch_job(name, {"metadata": precondition, "spec": change(job)}, namespace)

        return retry_on_conflict(attempt)
