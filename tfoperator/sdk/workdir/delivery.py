"""Brings a packed folder to the replicas of a job.

The folder is in a ConfigMap. A folder that is too large for a ConfigMap is in an object store, and a Secret has a link
to it. The job is created first. Its pods wait for the ConfigMap or the Secret, which this module then creates. The job
is an owner of this object. So if the client dies at any moment, Kubernetes later deletes the ConfigMap or Secret
together with the last job that owns it. `sweep` removes a folder from the object store when no job with its hash exists
any more. Jobs with the same folder (the same hash) share the ConfigMap or Secret, and the folder in the object store.
"""

from __future__ import annotations

import inspect
import os
from base64 import b64encode
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME, LABEL_WORKDIR, WORKDIR_SOURCE_VOLUME, WORKDIR_VOLUME
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import Selection, list_all
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ConflictError, KubeError, NotFoundError
from tfoperator.kube.protocol.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from tfoperator.kube.protocol.verbs import ListWatch, PatchType, decode_metadata
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.kube.views.pod_spec import verbatim
from tfoperator.object_store import Objects
from tfoperator.sdk.errors import WorkdirError
from tfoperator.sdk.workdir import in_replica
from tfoperator.sdk.workdir.packing import IGNORE_FILE, MAX_BYTES, mebibytes, pack

STORE_VARIABLE = "TFOPERATOR_WORKDIR_STORE"
"""The environment variable that contains the URL below which larger folders are stored. See
`tfoperator.object_store`.
"""

_IN_CONFIG_MAP = (1 << 20) - 1024  # bytes; API servers take 1 MiB
_LINK_DAYS = 7  # the longest lifetime of a link that object stores allow
_ATTEMPTS = 30  # an attempt fails if another job with the same folder changes the object at the same time
_KEY = LABEL_WORKDIR + "-key"
"""An annotation of a Secret with a link. Its value is the key of the packed folder in the object store."""


class Folder:
    """A folder of this machine, packed for one or more jobs. Immutable."""

    def __init__(
        self, path: str | os.PathLike[str], requirements: str = "", program: str = "", max_bytes: int = MAX_BYTES
    ) -> None:
        """`requirements` is a requirements file for pip, and `program` is the job's program: files in the folder.

        Raises WorkdirError if the folder can't be packed or sent, or if it lacks such a file. Raises OSError with the
        name of a file that can't be read.
        """
        self.package = pack(Path(path), max_bytes)
        self.name = f"workdir-{self.package.digest[:20]}"
        self._requirements, self.program = (file and os.path.relpath(file, path) for file in (requirements, program))
        for needed in {self._requirements, self.program} - {"", *self.package.names}:
            raise WorkdirError(
                f"{needed} is not copied from {path}: it is not in this folder, or git or {IGNORE_FILE} ignores it"
            )
        is_large = len(self.package.content) > _IN_CONFIG_MAP
        self._store = os.environ.get(STORE_VARIABLE, "") if is_large else ""
        if is_large and not self._store:
            raise WorkdirError(
                f"{path} has {mebibytes(len(self.package.content))} when packed, but a ConfigMap can have at most 1 "
                f"MiB: set an object store (export {STORE_VARIABLE}=s3://BUCKET/PATH), or list in {IGNORE_FILE} the "
                "files that the job does not need"
            )

    def mounted(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the job whose replicas mount the folder, and run their commands in it.

        Raises WorkdirError if a replica type has no command.
        """
        job: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(manifest))  # a deep copy
        script, size = verbatim(inspect.getsource(in_replica)), str(len(self.package.content))
        start = ["python3", "-c", script, self.package.digest, size, verbatim(self._requirements)]
        source = {"secret": {"secretName": self.name}} if self._store else {"configMap": {"name": self.name}}
        for kind, spec in ((job.get("spec") or {}).get("tfReplicaSpecs") or {}).items():
            pod = ((spec or {}).get("template") or {}).get("spec") or {}
            for container in pod.get("containers") or ():
                if container.get("name") == DEFAULT_CONTAINER_NAME:
                    if not container.get("command"):
                        raise WorkdirError(
                            f"{kind}: the container tensorflow must have a command, which runs in the copied folder"
                        )
                    container["command"] = [*start, *container["command"]]
                    container["volumeMounts"] = [
                        *(container.get("volumeMounts") or ()),
                        {"name": WORKDIR_VOLUME, "mountPath": "/tfoperator/workdir"},
                        {"name": WORKDIR_SOURCE_VOLUME, "mountPath": "/tfoperator/workdir-source", "readOnly": True},
                    ]
            volumes = ({"name": WORKDIR_VOLUME, "emptyDir": {}}, {"name": WORKDIR_SOURCE_VOLUME, **source})
            pod["volumes"] = [*(pod.get("volumes") or ()), *volumes]
        meta = job["metadata"]
        return {**job, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), LABEL_WORKDIR: self.name}}}

    def deliver(self, client: Client, job: ObjectMeta) -> None:
        """Create the ConfigMap or Secret for which the job's pods wait.

        If that fails, delete the job, and raise the error: WorkdirError, KubeError or ObjectStoreError.
        """
        try:
            for _ in range(_ATTEMPTS):
                with suppress(ConflictError, NotFoundError):  # another client changed or deleted it meanwhile
                    self._carry(client, job)
                    return
            raise WorkdirError(
                f"another client changes the ConfigMap or Secret {self.name} in namespace {job.namespace} again and "
                "again: submit the job again"
            )
        except BaseException:
            with suppress(KubeError):
                client.delete(TFJOBS, job.namespace, job.name, uid=job.uid, propagation_policy="Background")
            raise

    def _carry(self, client: Client, job: ObjectMeta) -> None:
        """Create the ConfigMap or Secret with the folder.

        If the object exists, add this job as an owner. Raises ConflictError or NotFoundError if another client changes
        or deletes the object meanwhile.
        """
        resource, place = SECRETS if self._store else CONFIG_MAPS, job.namespace
        try:
            existing = client.get(resource, place, self.name, decode_metadata).metadata
        except NotFoundError:
            existing = ObjectMeta()
        owner = {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind, "name": job.name, "uid": job.uid}
        meta: dict[str, Any] = {"name": self.name, "ownerReferences": [owner]}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": resource.kind, "metadata": meta}
        if self._store:
            key, link = self._upload(client, job, existing)
            meta["annotations"] = {_KEY: key}
            body["stringData"] = {"link": link}
        else:
            body.update(binaryData={"archive": b64encode(self.package.content).decode()}, immutable=True)
        # The patch adds an owner, and keeps the other owners. The server refuses other data in an immutable ConfigMap.
        if existing.uid:
            meta["resourceVersion"] = existing.resource_version
            client.patch(resource, place, self.name, body, decode_metadata, patch_type=PatchType.STRATEGIC)
        else:
            client.create(resource, place, body, decode_metadata)

    def _upload(self, client: Client, job: ObjectMeta, secret: ObjectMeta) -> tuple[str, str]:
        """Store the folder in the object store, unless it is there. Return the key and a link (a URL) of the object."""
        sweep(client, job.namespace, self._store)
        objects = _objects(client, job.namespace, self._store)
        # Share the object of an earlier job only if that job still exists. Otherwise, a concurrent sweep that has not
        # seen this job may remove the object. An object with a new key is safe: the sweep lists objects before jobs.
        living = {meta.uid for meta in _jobs(client, job.namespace) if meta.labels[LABEL_WORKDIR] == self.name}
        shared = living & {owner.uid for owner in secret.owner_references}
        key = secret.annotations[_KEY] if shared else f"{self.name}/{job.uid}.tar.gz"
        if objects.find(key) is None:
            objects.put(key, self.package.content)
        return key, objects.link(key, timedelta(days=_LINK_DAYS))


def sweep(client: Client, namespace: str, store: str = "") -> None:
    """Remove from the object store the folders that no job of the namespace uses any more.

    The default store is `$TFOPERATOR_WORKDIR_STORE`. Without a store, the function does nothing. Raises KubeError or
    ObjectStoreError.
    """
    store = store or os.environ.get(STORE_VARIABLE, "")
    if store:
        objects = _objects(client, namespace, store)
        keys = [info.key for info in objects.all()]  # before the jobs: objects of later jobs stay
        living = {job.labels[LABEL_WORKDIR] for job in _jobs(client, namespace)}
        objects.delete(key for key in keys if key.partition("/")[0] not in living)


def _objects(client: Client, namespace: str, store: str) -> Objects:
    """Return the part of the object store for this namespace.

    Its prefix is the namespace's UID, because other namespaces and clusters may use the same store.
    """
    return Objects(f"{store.rstrip('/')}/{client.get(NAMESPACES, '', namespace, decode_metadata).metadata.uid}")


def _jobs(client: Client, namespace: str) -> list[ObjectMeta]:
    jobs = list_all(ListWatch(client, TFJOBS, namespace, decode_metadata, Selection(label_selector=LABEL_WORKDIR)))
    return [job.metadata for job in jobs.items]
