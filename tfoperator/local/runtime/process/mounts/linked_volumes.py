"""The volumes of pods on a machine that permits no mount namespaces.

A volume is a symbolic link at its mount path. In addition, each volume has an environment variable that contains the
path of the volume's folder.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tfoperator.local.runtime.process.mounts.mount_links import LinkUser, MountLinks, PathTaken
from tfoperator.local.runtime.process.programs import mount_variable
from tfoperator.local.runtime.protocol import LocalPod, Mount, StartLater

_MAX_TMPDIR = 60
"""The longest path, in bytes, that TMPDIR may have if a volume is mounted at `/tmp`. A socket's path has at most 108
bytes (104 on macOS), and multiprocessing appends 32 bytes to its folder's path.
"""
_RETRY_SECONDS = 1.0
"""Seconds until the next try, if another pod has the mount path."""


class LinkedVolumes:
    """Makes links at the mount paths of a runtime's pods. Thread-safe.

    `records` is the folder in which the links are recorded. `mark` is a secret of the runtime. If TMPDIR must be the
    path of a link, the link's name contains a hash of `mark`, so other users can't guess the name. `refusal` returns
    the reason why the machine permits no mount namespaces.
    """

    def __init__(self, records: Path, mark: str, refusal: Callable[[], str]) -> None:
        self._links = MountLinks(records)
        self._mark = mark
        self._refusal = refusal

    def reserve(self, pod: LocalPod, mounts: Sequence[Mount]) -> None:
        """Make the links for a container's mounts. A link that can't be made is left out: `variables` warns about it.

        Raises StartLater while another pod uses one of the mount paths.
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
        """Return the variable TMPDIR if a volume is mounted at `/tmp`, and warn about each mount that has no link.

        A volume at `/tmp` gets no link there, because other programs need `/tmp`. TMPDIR contains the volume's path, or
        a short link to it if the path is too long for sockets. Call `reserve` first.
        """
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
        """Return the volume's path, short enough for sockets. If its own path is too long, return a link to it."""
        volume = mount.source
        if len(os.fsencode(volume)) <= _MAX_TMPDIR:
            return volume
        # Other users can't know this name, so they can't put a link of their own in its place.
        digest = hashlib.sha256(f"{self._mark} {volume}".encode(errors="surrogateescape")).hexdigest()
        link = Path(tempfile.gettempdir(), f"tfo-{digest[:16]}")
        return volume if self._links.make(_user(pod, mount), link, volume) else link


def _linked(mounts: Sequence[Mount]) -> list[Mount]:
    """Return the mounts that need a link.

    Outer mounts come before inner mounts, whatever their order in the manifest.
    """
    needed = [mount for mount in mounts if not mount.replaces_tmp and Path(mount.mount_path) != mount.source]
    return sorted(needed, key=lambda mount: len(Path(mount.mount_path).parts))


def _user(pod: LocalPod, mount: Mount) -> LinkUser:
    return LinkUser(pod.metadata.uid, pod.metadata.key, mount.name)
