"""Volumes as directories under the run directory, filled as the kubelet fills them.

A plain process has no mount namespace, so a volume can only be *offered*: its path is in an environment variable,
`/tmp` is taken over through TMPDIR, and elsewhere a symbolic link stands in for the mount where the machine allows
one (see `process_runtime`). What can never be provided is refused instead of silently left empty.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from tfoperator.local.expansion import ContainerConfigError, Sources, field_value
from tfoperator.local.podview import (
    Container,
    DownwardSource,
    HostPathSource,
    KeyToPath,
    LocalPod,
    ObjectSource,
    Volume,
)

__all__ = ["VOLUMES", "Mount", "UnsupportedVolume", "VolumeManager", "real_path"]

VOLUMES = "volumes"
"""The folder of the run directory with all volumes."""


class UnsupportedVolume(Exception):
    """A volume of a kind that can't exist without a cluster. Trying again is of no use."""


class Mount(msgspec.Struct, frozen=True):
    """One volume of one container: where its content lies, and where the container wants to see it."""

    name: str
    source: Path
    mount_path: str
    read_only: bool = False


def real_path(path: str, mounts: Sequence[Mount]) -> str:
    """Where a path of a container lies on this machine: in the innermost mount that it is below, else where it says."""
    wanted = PurePosixPath(path)
    for mount in sorted(mounts, key=lambda one: len(PurePosixPath(one.mount_path).parts), reverse=True):
        if wanted.is_relative_to(mount.mount_path):
            return str(mount.source / wanted.relative_to(mount.mount_path))
    return path


class VolumeManager:
    """Makes and removes the volumes of pods.

    `pods` holds what lives as long as a pod, `claims` what outlives it: a PersistentVolumeClaim is a directory by
    the claim's name, shared by all pods that use it and kept until the run directory is deleted. With `keep`,
    `remove` does nothing. `mounted` says that containers see them through mounts, whatever user they run as: then each
    may write to them, as with a kubelet, and the folder above is closed to other users of this machine.
    """

    def __init__(self, root: Path, *, keep: bool = False, mounted: bool = False) -> None:
        self._keep = keep
        self._mounted = mounted
        # Containers are told these paths, and a container starts where it likes.
        self._pods = root.absolute() / "pods"
        self._claims = root.absolute() / "claims"

    def claims(self, namespace: str) -> Path:
        """The folder in which each PersistentVolumeClaim of a namespace has one."""
        return self._claims / namespace

    def prepare(self, pod: LocalPod, sources: Sources) -> dict[str, Path]:
        """Make every volume of a pod; a second call repeats nothing that is there, but fills in fresh data.

        Raises ContainerConfigError if a ConfigMap, Secret or host path is missing (it may come), and
        UnsupportedVolume if there is no hope.
        """
        return {volume.name: self._prepare(pod, volume, sources) for volume in pod.spec.volumes or ()}

    def mounts(self, pod: LocalPod, container: Container, volumes: dict[str, Path]) -> tuple[Mount, ...]:
        """The mounts of one container. Raises UnsupportedVolume for a mount of a volume that the pod lacks."""
        result = []
        # As in a cluster, nobody writes to what an object of the API says.
        from_objects = {volume.name for volume in pod.spec.volumes or () if _is_rendered(volume)}
        for mount in container.volume_mounts or ():
            source = volumes.get(mount.name)
            if source is None:
                raise UnsupportedVolume(
                    f"container {container.name!r} mounts volume {mount.name!r}, which is not defined"
                )
            if mount.sub_path:
                source = _inside(source, mount.sub_path)
                if not source.exists():
                    source.mkdir(parents=True, exist_ok=True)  # a pod that shares the volume may be quicker
            read_only = mount.read_only or mount.name in from_objects
            result.append(Mount(mount.name, source, mount.mount_path, read_only))
        return tuple(result)

    def remove(self, pod: LocalPod) -> None:
        """Delete what lived as long as the pod."""
        if not self._keep:
            shutil.rmtree(self._pods / pod.metadata.uid, ignore_errors=True)

    def close(self) -> None:
        """Leave no empty directories behind. When no pod is left: one that starts could need them."""
        for directory in (self._pods, self._pods.parent):
            try:
                directory.rmdir()
            except OSError:  # something is kept in it, or it was never made
                return

    def _prepare(self, pod: LocalPod, volume: Volume, sources: Sources) -> Path:
        if volume.host_path is not None:
            return _host_path(volume.name, volume.host_path)
        if volume.persistent_volume_claim is not None:
            directory = self.claims(pod.metadata.namespace) / volume.persistent_volume_claim.claim_name
            self._make(directory)
            return directory
        directory = self._pods / pod.metadata.uid / volume.name
        if volume.empty_dir is not None:
            self._make(directory)
            return directory
        files = list(_files(pod, volume, sources, self._mounted))
        self._make(directory, 0o755)
        for path, content, mode in files:
            target = _inside(directory, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, content, mode)
        return directory

    def _make(self, directory: Path, mode: int = 0o777) -> None:
        if directory.is_dir() or not self._mounted:
            directory.mkdir(parents=True, exist_ok=True)
            return
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.parent.chmod(0o700)
        directory.mkdir(exist_ok=True)
        directory.chmod(mode)


def _is_rendered(volume: Volume) -> bool:
    return (volume.empty_dir, volume.host_path, volume.persistent_volume_claim) == (None, None, None)


def _files(pod: LocalPod, volume: Volume, sources: Sources, mounted: bool) -> Iterator[tuple[str, bytes, int]]:
    if volume.config_map is not None:
        yield from _object_files("ConfigMap", volume.config_map, sources, mounted)
    elif volume.secret is not None:
        yield from _object_files("Secret", volume.secret, sources, mounted)
    elif volume.downward_api is not None:
        yield from _downward_files(pod, volume.downward_api)
    elif volume.projected is not None:
        for source in volume.projected.sources:
            if source.config_map is not None:
                yield from _object_files("ConfigMap", source.config_map, sources, mounted)
            if source.secret is not None:
                yield from _object_files("Secret", source.secret, sources, mounted)
            if source.downward_api is not None:
                yield from _downward_files(pod, source.downward_api)
    else:
        raise UnsupportedVolume(
            f"volume {volume.name!r} is of a kind that does not exist locally; there are emptyDir, hostPath, "
            "configMap, secret, downwardAPI, projected and persistentVolumeClaim"
        )


def _object_files(kind: str, source: ObjectSource, sources: Sources, mounted: bool) -> Iterator[tuple[str, bytes, int]]:
    name = source.secret_name or source.name
    data = sources(kind, name)
    if data is None:
        if source.optional:
            return
        raise ContainerConfigError(f"{kind} {name!r} not found")
    # Kubernetes' default is 0644 for both; where other users could look, a secret deserves better.
    usual = 0o600 if kind == "Secret" and not mounted else 0o644
    default = source.default_mode if source.default_mode is not None else usual
    for item in source.items or tuple(KeyToPath(key=key, path=key) for key in data):
        if item.key not in data:
            if source.optional:
                continue
            raise ContainerConfigError(f"{kind} {name!r} has no key {item.key!r}")
        yield item.path, data[item.key], default if item.mode is None else item.mode


def _downward_files(pod: LocalPod, source: DownwardSource) -> Iterator[tuple[str, bytes, int]]:
    for item in source.items or ():
        if item.field_ref is None:
            raise UnsupportedVolume(f"downwardAPI file {item.path!r}: only fieldRef is available locally")
        yield item.path, field_value(pod, item.field_ref).encode(), 0o644 if item.mode is None else item.mode


def _host_path(name: str, source: HostPathSource) -> Path:
    path = Path(source.path)
    if source.type == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif source.type == "FileOrCreate":
        path.touch()
    elif source.type and not path.exists():
        raise ContainerConfigError(f"volume {name!r}: hostPath {source.path} does not exist")
    return path


def _inside(directory: Path, relative: str) -> Path:
    path = Path(os.path.normpath(directory / relative))
    if path != directory and directory not in path.parents:
        raise UnsupportedVolume(f"path {relative!r} leads out of its volume")
    return path


def _write(target: Path, content: bytes, mode: int) -> None:
    # A new file by its side, then a rename: a running process never sees half of the content, and the file has
    # its final mode before it has any content.
    fresh = target.with_name(f".{target.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(content)
    fresh.replace(target)
