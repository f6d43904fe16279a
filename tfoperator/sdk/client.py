"""`TFJobClient`: operations on TFJobs for programs.

The methods have the same names as in the Go operator's TrainingClient.
"""

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
from tfoperator.sdk.errors import JobEnded, JobNotFound, JobQueued, NoSuchReplica, job_errors
from tfoperator.sdk.functions import DEFAULT_BASE_IMAGE, FunctionJob, JobSource, job_manifest
from tfoperator.sdk.queues import QueueState, job_queue
from tfoperator.sdk.reader import JobReader
from tfoperator.sdk.states import replica_key
from tfoperator.sdk.workdir.delivery import Folder, sweep


class TFJobClient(JobReader):
    """A client for TFJobs. It can be used as a context manager. Thread-safe: a process needs only one client.

    `config_file` and `context` choose the cluster, as kubectl's `--kubeconfig` and `--context` do. Without them, the
    client uses KUBECONFIG, `~/.kube/config`, or the cluster in which this process runs. `namespace` is the namespace
    for calls that name no namespace. Its default is the namespace of the context. `client` is an existing
    `tfoperator.kube.Client`, which `close()` leaves open. `archive_dir` is the operator's log archive: a directory or a
    URL. Its default is `$TFOPERATOR_ARCHIVE_DIR`.

    Errors about a job are `TFJobError`s that name the job. All other errors (no connection, no rights) are
    `tfoperator.kube.KubeError`s. The constructor raises `tfoperator.kube.ConfigError`
    if it finds no usable configuration of a cluster.
    """

    _local: ExitStack | None = None  # for a client from `local` or `of_run`: ends its control plane

    @classmethod
    def local(
        cls, run_dir: str | os.PathLike[str] | None = None, *, work_dir: str | os.PathLike[str] | None = None
    ) -> TFJobClient:
        """Return a client with its own control plane (API server, operator, node agent) in this process.

        The jobs run as processes of this machine. This client needs neither a cluster nor a kubeconfig. `run_dir` is
        the directory for logs and volumes, which are kept. Without `run_dir`, they are in a temporary directory, which
        `close()` deletes. `close()` also stops running jobs. Processes start in `work_dir`. Its default is the current
        directory. Raises OSError if `run_dir` can't be created or written, or if the control plane can't start.
        """
        # Imported late: most clients never need the control plane and its libraries.
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
        """Return a client for a run of `tfoperator run`, by the run's directory.

        The run may be in progress, have ended or have died. The client only reads, and changes nothing. A job that has
        not ended when its run ends counts as Failed. The reason of its condition Failed is RunTimedOut, RunInterrupted
        or RunDied. Raises OSError if the directory can't be read, and ValueError if it contains no readable records.
        """
        # Imported late: most clients never need the API server for records of runs.
        from tfoperator.local.run.recorded_run import RecordedRun

        with ExitStack() as undo:
            run = undo.enter_context(RecordedRun(Path(run_dir)))
            client = cls(run=run, namespace=run.jobs[0]["namespace"] if run.jobs else "default")
            client._local = undo.pop_all()
        return client

    def close(self) -> None:
        """Close the client. If `local` made the client, this stops its jobs and its control plane."""
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
        """Create a job from a manifest or from a function; return the job that the API server stored.

        `job` is a mapping, a TFJob, the path of a file, or YAML text. `namespace` overrides the namespace in `job`, and
        the namespace in `job` overrides the client's namespace. With `dry_run` the server checks everything but stores
        nothing.

        In place of `job`, `train_func` can be a self-contained function: a function that uses no names from outside of
        it, and contains its own imports. Each replica runs the function's source in `base_image`, and calls the
        function with `parameters`, a dictionary, as its only argument. Without `parameters`, it calls the function
        without an argument. `resources_per_worker` is a mapping such as `{"cpu": 2, "memory": "4Gi", "gpu": 1}`.
        `env_vars` is a mapping, or a list of entries as in a container's `env`. First, pip installs
        `packages_to_install`. Without any numbers of replicas, the job has one worker.

        `workdir` is a folder of this machine with at most 100 MiB. Each replica runs its command or the function in a
        copy of this folder, without the files that git or `.tfoperatorignore` ignores. Before the command starts, pip
        installs the packages from the folder's file that `requirements` names.

        Raises JobAlreadyExists, JobInvalid, NamespaceNotFound, NotInstalled, FunctionSourceError or WorkdirError.
        Raises `tfoperator.api.loading.ManifestError` if a file can't be read, and ValueError for invalid arguments.
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
        """Change a job's labels, annotations and spec to the values in `job`.

        Fields that `job` doesn't contain stay unchanged. The default of `name` is the name in `job`. Raises JobNotFound
        or JobInvalid.
        """
        manifest = job_manifest(job, name)
        metadata = manifest["metadata"]
        changes = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        patch = {"metadata": changes, "spec": manifest.get("spec") or {}}
        return self.patch_job(str(metadata["name"]), patch, namespace or metadata.get("namespace"))

    def patch_job(self, name: str, patch: Mapping[str, Any], namespace: str | None = None) -> TFJob:
        """Apply a JSON merge patch (RFC 7386) to the job: None as a value removes a field.

        Raises JobNotFound or JobInvalid.
        """
        where = self._where(namespace)
        with job_errors(where, name):
            return self._client.patch(TFJOBS, where, name, patch, decode_tfjob)

    def delete_job(
        self, name: str, namespace: str | None = None, *, propagation_policy: str = "Background", uid: str = ""
    ) -> None:
        """Delete the job. Raises JobNotFound.

        The job may still exist when the method returns: see `wait_for_job_deletion`. With the default
        `propagation_policy`, Kubernetes deletes the job's pods and services after the job.

        With `uid`, only the job with this UID is deleted. If the name belongs to another job, the method raises
        `tfoperator.kube.protocol.errors.ConflictError`.
        """
        where = self._where(namespace)
        with job_errors(where, name):
            self._client.delete(TFJOBS, where, name, uid=uid, propagation_policy=propagation_policy)
        with suppress(OSError, KubeError):  # after a failure, the next `delete_job` removes the folders
            sweep(self._client, where)

    def suspend_job(self, name: str, namespace: str | None = None, *, uid: str = "") -> TFJob:
        """Suspend the job: the operator deletes its pods. Raises JobNotFound, JobEnded or JobQueued.

        With `uid`, only the job with this UID is changed. If the name belongs to another job, the method raises
        JobNotFound.

        If Kueue's built-in TFJob integration manages the job, Kueue would revert the change, so the method raises
        JobQueued. To stop such a job, set `spec.active` of its Workload to false. JobQueued names the Workload.
        """
        return self._set_suspend(name, namespace, uid, True)

    def resume_job(self, name: str, namespace: str | None = None, *, uid: str = "") -> TFJob:
        """Resume a suspended job. `uid` and the errors (JobNotFound, JobEnded, JobQueued) are as for `suspend_job`."""
        return self._set_suspend(name, namespace, uid, False)

    def scale_job(
        self, name: str, replicas: int | Mapping[str, int], namespace: str | None = None, *, uid: str = ""
    ) -> TFJob:
        """Set the number of replicas.

        `replicas` is the number of workers, or a mapping from replica types to numbers. Raises JobNotFound,
        NoSuchReplica or JobEnded. TensorFlow processes that are already running find new replicas only if the job has
        `enableDynamicWorker`. `uid` has the same meaning as for `suspend_job`.
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

        return self._change_spec(name, namespace, uid, change)

    def _set_suspend(self, name: str, namespace: str | None, uid: str, suspend: bool) -> TFJob:
        def change(job: TFJob) -> dict[str, Any]:
            queue = job_queue(self._client, job)
            # In a cluster without Kueue, the label with the queue's name has no effect.
            if queue is not None and queue.state is not QueueState.NO_KUEUE and not queue.by_operator:
                raise JobQueued(job, queue, active=not suspend)
            return {"runPolicy": {"suspend": suspend}}

        return self._change_spec(name, namespace, uid, change)

    def _change_spec(
        self, name: str, namespace: str | None, uid: str, change: Callable[[TFJob], Mapping[str, Any]]
    ) -> TFJob:
        """Patch the spec of a job that has not ended. `change` returns the patch of the spec for a job.

        Raises JobEnded if the job has ended, and JobNotFound if the job does not have the UID `uid` (if not empty).

        If the server responds with 409, the job has changed in the meantime: read the job again, and retry.
        """

        def attempt() -> TFJob:
            job = self.get_job(name, namespace)
            if uid and job.metadata.uid != uid:
                raise JobNotFound(job.metadata.namespace, name, "was deleted, and another job has its name now")
            end = final_condition(job)
            if end is not None:
                raise JobEnded(job, f"has already ended ({end.type}), so it can't be changed")
            precondition = {"resourceVersion": job.metadata.resource_version}
            return self.patch_job(name, {"metadata": precondition, "spec": change(job)}, namespace)

        return retry_on_conflict(attempt)
