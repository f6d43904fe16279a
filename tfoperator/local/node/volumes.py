"""Volumes are directories under the run directory. The agent fills volumes in the same manner as a kubelet.

The runtime decides how containers access volumes: see `runtime.process` and `runtime.docker`. If a volume can never be
provided, the container fails to start: the volume is not silently left empty.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tfoperator.base.private_files import private_folder
from tfoperator.kube.views.pod_spec import (
    Container,
    DownwardFile,
    DownwardSource,
    HostPathSource,
    KeyToPath,
    ObjectSource,
    PartialSource,
    ProjectedSource,
    Volume,
)
from tfoperator.local.node.container_record import TerminationMessage
from tfoperator.local.node.expansion import (
    ContainerConfigError,
    Sources,
    Tokens,
    expand_known,
    field_value,
    object_data,
    resource_value,
)
from tfoperator.local.runtime.beneath import UnsafePath, folder_beneath, parts_beneath
from tfoperator.local.runtime.protocol import LaunchError, LocalPod, Mount
from tfoperator.local.usage import Machine

_MESSAGES_FOLDER = ".termination-messages"
"""The name of the folder with the termination messages, beside the volumes of a pod. A volume can't have this name."""
VOLUMES = "volumes"
"""The name of the folder in the run directory that contains all volumes."""
TEMPORARY = ".temporary"
"""The name of a file beside the folders of volumes. It exists while these folders may contain volumes that must not
outlive their pods.
"""
_File = tuple[str, bytes, int]
"""A file of a volume: its path in the volume, its content and its mode."""
_CLAIM_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", re.ASCII)
"""The pattern of valid claim names. API servers accept any text as the name of a claim in a pod, because they do not
check whether this claim exists.
"""


class VolumeManager:
    """Creates and removes the volumes of pods. Thread-safe.

    The folder `root` contains three folders:

    - `pods` contains the volumes that exist as long as their pod.
    - `claims` contains a folder for each namespace, which contains a folder for each PersistentVolumeClaim, with the
      claim's name. All pods that use the claim share its folder. The folder is kept until the run directory is deleted.
    - `objects` contains the volumes of ConfigMaps and Secrets. Pods whose volumes have the same content share a folder,
      which exists until the last of these pods has ended. So these pods can also share a symbolic link at a mount path,
      which replaces a mount where mounts are not possible.

    With `keep`, `remove` does nothing. With `mounted`, containers access volumes through mounts. Then each container
    may write to its volumes, whatever user ID it has, as with a kubelet. Other users of this machine can't open `root`.
    """

    def __init__(self, root: Path, *, keep: bool = False, mounted: bool = False) -> None:
        self._keep = keep
        self._mounted = mounted
        # Absolute, because containers get these paths and may start in any directory.
        self._root = root.absolute()
        self._pods = self._root / "pods"
        self._claims = self._root / "claims"
        self._shared = SharedFolders(self._root / "objects")

    def claims(self, namespace: str) -> Path:
        """Return the folder with the PersistentVolumeClaims of a namespace. Each claim is a folder in it."""
        return self._claims / namespace

    def prepare(self, pod: LocalPod, sources: Sources, tokens: Tokens | None = None) -> dict[str, Path]:
        """Create every volume that a container of the pod mounts. Return their directories, by the volumes' names.

        As a kubelet does, ignore the other volumes, even if they could never be provided. A second call keeps existing
        volumes, and writes the present content of ConfigMaps, Secrets and tokens. Raises ContainerConfigError if a
        ConfigMap, Secret, token or host path is missing, or if a host path has another type: call again later, because
        someone may have created or replaced it by then. Raises LaunchError for a volume that can never be provided.
        """
        volumes = _mounted_volumes(pod)
        if volumes:
            self._make_root()
        return {volume.name: self._prepare(pod, volume, sources, tokens) for volume in volumes}

    def mounts(
        self, pod: LocalPod, container: Container, volumes: Mapping[str, Path], variables: Mapping[str, str]
    ) -> tuple[Mount, ...]:
        """Return the mounts of one container. `variables` are the container's variables, which a `subPathExpr` uses.

        Raises LaunchError if the pod lacks the volume of a mount, and ContainerConfigError if the container lacks a
        variable that a `subPathExpr` contains.
        """
        result = []
        # As in a cluster, containers can't write to volumes made from API objects.
        from_objects = {volume.name for volume in pod.spec.volumes or () if _is_rendered(volume)}
        for mount in container.volume_mounts or ():
            source = volumes.get(mount.name)
            if source is None:
                raise LaunchError(f"container {container.name!r} mounts volume {mount.name!r}, which is not defined")
            read_only = mount.read_only or mount.name in from_objects
            made = Mount(mount.name, source, mount.mount_path, read_only)
            sub_path = mount.sub_path or expand_known(mount.sub_path_expr, variables)
            if sub_path:
                try:
                    part = source.joinpath(*parts_beneath(sub_path))
                    made = msgspec.structs.replace(made, source=part, volume=source)
                    made.make_source()
                except UnsafePath as error:
                    raise LaunchError(f"container {container.name!r}: subPath {error}") from None
            result.append(made)
        return tuple(result)

    def termination_message(
        self, pod: LocalPod, container: Container, mounts: Sequence[Mount], attempt: int
    ) -> TerminationMessage:
        """Return the file for the termination message of one attempt to run a container.

        Call this method before the attempt begins. Raises OSError if the file can't be created.
        """
        path = container.termination_message_path
        if not self._mounted or any(mount.mount_path == path for mount in mounts):
            return TerminationMessage.on_this_machine(container, mounts)
        self._make_root()
        name = f"{container.name}-{attempt}"
        return TerminationMessage.mounted(container, self._pods / pod.metadata.uid / _MESSAGES_FOLDER / name)

    def remove(self, pod: LocalPod) -> None:
        """Delete the volumes that exist only as long as the pod."""
        if not self._keep:
            shutil.rmtree(self._pods / pod.metadata.uid, ignore_errors=True)
            self._shared.release(pod.metadata.uid)

    def remove_left_behind(self) -> None:
        """Delete the volumes of all pods, and keep the claims.

        Call this method only if all pods have ended, for example after a crash: the volumes of the killed run may
        contain copies of Secrets, and would otherwise stay for ever.
        """
        for directory in (self._pods, self._root / "objects"):
            shutil.rmtree(directory, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Remove empty directories. Call it when no pod is left: a pod that starts could need these directories."""
        directories = (self._pods, self._root / "objects")
        for directory in directories:
            with suppress(OSError):  # the directory is not empty, or was never made
                directory.rmdir()
        with suppress(OSError):
            if not any(directory.exists() for directory in directories):
                (self._root / TEMPORARY).unlink(missing_ok=True)
            self._root.rmdir()

    def _make_root(self) -> None:
        private_folder(self._root)
        if not self._keep:
            (self._root / TEMPORARY).touch()

    def _prepare(self, pod: LocalPod, volume: Volume, sources: Sources, tokens: Tokens | None) -> Path:
        if volume.host_path is not None:
            return _host_path(volume.name, volume.host_path)
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim.claim_name
            if not _CLAIM_NAME.fullmatch(claim):
                raise LaunchError(f"volume {volume.name!r}: {claim!r} is not a valid name of a claim")
            directory = self.claims(pod.metadata.namespace) / claim
            self._make(directory)
            return directory
        directory = self._pods / pod.metadata.uid / volume.name
        # An ephemeral volume lives as long as its pod, and there is no storage to claim here: make a folder.
        if volume.empty_dir is not None or volume.ephemeral is not None:
            self._make(directory)
            return directory
        if (volume.config_map, volume.secret, volume.downward_api, volume.projected) == (None, None, None, None):
            raise LaunchError(
                f"volume {volume.name!r} has a kind that is not supported locally; the supported kinds are emptyDir, "
                "ephemeral, hostPath, configMap, secret, downwardAPI, projected and persistentVolumeClaim"
            )
        files = list(_files(pod, volume, sources, tokens))

        def fill(folder: Path) -> None:
            self._fill(volume.name, folder, files)

        if volume.config_map is not None or volume.secret is not None:
            return self._shared.provide(pod.metadata.uid, files, fill)
        fill(directory)
        return directory

    def _fill(self, volume: str, directory: Path, files: Sequence[_File]) -> None:
        self._make(directory, 0o755)
        for path, content, mode in files:
            try:
                _write(directory, path, content, mode if self._mounted else mode & 0o700)
            except UnsafePath as error:
                raise LaunchError(f"volume {volume!r}: path {error}") from None

    def _make(self, directory: Path, mode: int = 0o777) -> None:
        if directory.is_dir():
            return
        directory.mkdir(parents=True, exist_ok=True)
        if self._mounted:
            directory.chmod(mode)


class SharedFolders:
    """Folders that pods share if their volumes have the same content.

    Each folder exists until the last of its pods has ended. Thread-safe. The name of a folder is a hash of the files
    that belong in it. So a ConfigMap with new content gets a new folder, and existing folders keep their content.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()  # guards _users, and the names of the folders
        self._users: dict[Path, set[str]] = {}  # UIDs of pods

    def provide(self, pod: str, files: Sequence[_File], fill: Callable[[Path], None]) -> Path:
        """Return the folder with these files, for a pod with the UID `pod`. `fill` writes the files into a folder.

        The files of an existing folder are written again, because a program may have changed them. Raises OSError, and
        the errors of `fill`.
        """
        folder = self._root / _digest(files)
        with self._lock:
            self._users.setdefault(folder, set()).add(pod)
            exists = folder.is_dir()
        if exists:  # write them again at each start: a program may have changed the files
            fill(folder)
            return folder
        self._root.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=self._root))
        try:
            fill(new)
            new.chmod(0o755)
            with self._lock:
                if not folder.is_dir():  # else another pod has made the folder meanwhile
                    new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return folder

    def release(self, pod: str) -> None:
        """Delete the folders that only this pod used."""
        unused = []
        with self._lock:
            for folder in [folder for folder, users in self._users.items() if pod in users]:
                self._users[folder].discard(pod)
                if not self._users[folder]:
                    del self._users[folder]
                    # Rename the folder first: deleting takes time, and a new pod may need a folder of this name.
                    old = folder.with_name(f".old-{folder.name}-{pod}")
                    with suppress(FileNotFoundError):  # the folder was never filled
                        folder.rename(old)
                        unused.append(old)
        for old in unused:
            shutil.rmtree(old, ignore_errors=True)


def _digest(files: Sequence[_File]) -> str:
    hashed = hashlib.sha256()
    for path, content, mode in sorted(files):
        name = path.encode(errors="surrogateescape")
        hashed.update(b"%d %d %d " % (len(name), len(content), mode) + name + content)
    return hashed.hexdigest()[:32]


def _mounted_volumes(pod: LocalPod) -> list[Volume]:
    names = {mount.name for container in pod.spec.all_containers for mount in container.volume_mounts or ()}
    return [volume for volume in pod.spec.volumes or () if volume.name in names]


def _is_rendered(volume: Volume) -> bool:
    kept = (volume.empty_dir, volume.ephemeral, volume.host_path, volume.persistent_volume_claim)
    return all(source is None for source in kept)


def token_seconds(pod: LocalPod) -> int | None:
    """Return the shortest lifetime of a token in the mounted volumes, in seconds. Return None if there is no token."""
    parts = [part for volume in _mounted_volumes(pod) if volume.projected for part in volume.projected.sources]
    tokens = [part.service_account_token for part in parts]
    return min((token.expiration_seconds for token in tokens if token is not None), default=None)


_DEFAULT_MODE = 0o644
_TOKEN_MODE = 0o644
"""The mode of a token, which any user in the container can read. The folder of all volumes keeps other users out."""


def _files(pod: LocalPod, volume: Volume, sources: Sources, tokens: Tokens | None) -> Iterator[_File]:
    projected = volume.projected
    for part in (volume,) if projected is None else projected.sources:
        # In a projected volume, only the volume has a default mode, and not its sources.
        if part.config_map is not None:
            mode = _default_mode(part.config_map if projected is None else projected)
            yield from _object_files("ConfigMap", part.config_map, sources, mode)
        if part.secret is not None:
            mode = _default_mode(part.secret if projected is None else projected)
            yield from _object_files("Secret", part.secret, sources, mode)
        if part.downward_api is not None:
            mode = _default_mode(part.downward_api if projected is None else projected)
            for item in part.downward_api.items or ():
                yield item.path, _downward_text(pod, item).encode(), mode if item.mode is None else item.mode
        if isinstance(part, PartialSource) and part.service_account_token is not None:
            wanted = part.service_account_token
            if tokens is None:
                raise LaunchError(f"volume {volume.name!r}: this node has no tokens of service accounts")
            yield wanted.path, tokens(wanted.audience, wanted.expiration_seconds).encode(), _TOKEN_MODE


def _default_mode(source: ObjectSource | DownwardSource | ProjectedSource) -> int:
    return _DEFAULT_MODE if source.default_mode is None else source.default_mode


def _object_files(kind: str, source: ObjectSource, sources: Sources, default: int) -> Iterator[_File]:
    name = source.secret_name or source.name
    data = object_data(kind, name, sources, optional=source.optional).files
    for item in source.items or tuple(KeyToPath(key=key, path=key) for key in data):
        if item.key not in data:
            if source.optional:
                continue
            raise ContainerConfigError(f"{kind} {name!r} has no key {item.key!r}")
        yield item.path, data[item.key], default if item.mode is None else item.mode


def _downward_text(pod: LocalPod, item: DownwardFile) -> str:
    if item.field_ref is not None:
        return field_value(pod, item.field_ref)
    if item.resource_field_ref is None:
        raise LaunchError(f"downwardAPI file {item.path!r} has neither fieldRef nor resourceFieldRef")
    try:
        return resource_value(pod, pod.spec.containers[0], item.resource_field_ref, Machine.this())
    except ValueError as error:
        raise LaunchError(f"downwardAPI file {item.path!r}: {error}") from None


_HOST_PATH_TYPES = {
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "Directory": (stat.S_ISDIR, "directory"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
"""The check that a kubelet makes of a `hostPath` with this type, and the name of the kind of entry in its message."""


def _host_path(name: str, source: HostPathSource) -> Path:
    path = Path(source.path)
    if not path.exists():
        # Without a type, a kubelet does not check the path, and its container runtime makes a missing folder.
        if source.type in ("", "DirectoryOrCreate"):
            path.mkdir(parents=True, exist_ok=True)
        elif source.type == "FileOrCreate":
            path.touch()
        else:
            raise ContainerConfigError(f"volume {name!r}: hostPath {source.path} does not exist")
    if source.type in _HOST_PATH_TYPES:
        is_right, kind = _HOST_PATH_TYPES[source.type]
        if not is_right(path.stat().st_mode):
            raise ContainerConfigError(f"volume {name!r}: hostPath {source.path} is not a {kind}")
    return path


def _write(directory: Path, path: str, content: bytes, mode: int) -> None:
    # Write a new file beside the old file, then rename it: a running process never sees half of the content, and the
    # file has its final mode before it has any content.
    *folders, name = parts_beneath(path) or (".",)
    fresh = f".{name}.{threading.get_ident()}.new"  # several pods may share the folder
    with folder_beneath(directory, folders) as folder:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
