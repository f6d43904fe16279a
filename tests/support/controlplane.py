"""The real control plane for tests: etcd, kube-apiserver and kube-controller-manager from hack/controlplane.py.

It is required, not optional: a machine that can't build it fails these tests, because a skip would hide that the
operator was never shown to a real API server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.controlplane import ControlPlane


@contextmanager
def control_plane(**options: object) -> Iterator[ControlPlane]:
    """A running control plane, stopped and removed afterwards; `options` go to ControlPlane."""
    with tempfile.TemporaryDirectory(prefix="tfoperator-controlplane-") as folder:
        plane = ControlPlane(Path(folder), **options)  # type: ignore[arg-type]
        plane.start()
        try:
            yield plane
        finally:
            plane.stop()
