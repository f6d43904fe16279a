"""The volumes of pods where the machine permits no mount namespaces: links, and variables that name their paths."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tfoperator.local.runtime.process.mount_links import LinkUser, MountLinks, PathTaken
from tfoperator.local.runtime.process.programs import mount_variable
from tfoperator.local.runtime.protocol import LocalPod, Mount, StartLater

_MAX_TMPDIR = 60
"""Bytes: a socket's path has at most 108, 104 on macOS, and multiprocessing appends 32 to its folder's path."""
_RETRY_SECONDS = 1.0
"""Seconds until a mount path that another pod has is tried again."""


class LinkedVolumes:
    """Links at the mount paths of a runtime's pods. Thread-safe.

    `records` is the folder of their records. `mark` is the runtime's secret: the names of short links contain its hash.
    `refusal` returns why the machine permits no mount namespaces.
    """

    def __init__(self, records: Path, mark: str, refusal: Callable[[], str]) -> None:
        self._links = MountLinks(records)
        self._mark = mark
        self._refusal = refusal

    def reserve(self, pod: LocalPod, mounts: Sequence[Mount]) -> None:
        """Make the links of a container's mounts, as far as possible.

        Raises StartLater while another pod has a path.
        """
        for mount in _linked(mounts):
            try:
                self._links.make(_user(pod, mount), Path(mount.mount_path), mount.source)
            except PathTaken as error:
                raise StartLater(
                    "ContainerCreating",
                    f"volume {mount.name!r} can't be mounted: {error}; this machine allows no mount namespaces "
                    f"({self._refusal()}), so a path can have only one volume at a time: wait until the other pod "
                    "has ended, use another mountPath, or --runtime docker",
                    _RETRY_SECONDS,
                    event="FailedMount",
                ) from None

    def variables(self, pod: LocalPod, mounts: Sequence[Mount], warn: Callable[[str, str], None]) -> dict[str, str]:
        """Return the variables that replace mounts, and warn of each mount without a link. Call `reserve` before."""
        for mount in _linked(mounts):
            try:
                problem = self._links.make(_user(pod, mount), Path(mount.mount_path), mount.source)
            except PathTaken as error:
                problem = str(error)
            if problem:
                warn(
                    "MountUnavailable",
                    f"volume {mount.name!r} can't be mounted at {mount.mount_path} ({problem}); its path is in the "
                    f"environment variable {mount_variable(mount)}",
                )
        temporary = next((mount for mount in mounts if mount.replaces_tmp), None)
        return {} if temporary is None else {"TMPDIR": str(self._temporary(pod, temporary))}

    def release(self, pod: LocalPod) -> None:
        """Remove the links that only this pod used."""
        self._links.release(pod.metadata.uid)

    def close(self) -> None:
        """Remove all links."""
        self._links.close()

    def _temporary(self, pod: LocalPod, mount: Mount) -> Path:
        """Return the volume, by a path that is short enough for sockets: a link to it, if its own path is too long."""
        volume = mount.source
        if len(os.fsencode(volume)) <= _MAX_TMPDIR:
            return volume
        # Other users can't know this name, so they can't put a link of their own in its place.
        digest = hashlib.sha256(f"{self._mark} {volume}".encode(errors="surrogateescape")).hexdigest()
        link = Path(tempfile.gettempdir(), f"tfo-{digest[:16]}")
        return volume if self._links.make(_user(pod, mount), link, volume) else link


def _linked(mounts: Sequence[Mount]) -> list[Mount]:
    """Return the mounts that need a link: outer mounts before inner mounts, for any order in the manifest."""
    needed = [mount for mount in mounts if not mount.replaces_tmp and Path(mount.mount_path) != mount.source]
    return sorted(needed, key=lambda mount: len(Path(mount.mount_path).parts))


def _user(pod: LocalPod, mount: Mount) -> LinkUser:
    return LinkUser(pod.metadata.uid, pod.metadata.key, mount.name)
