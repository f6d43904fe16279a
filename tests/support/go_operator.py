"""The Go operator (training-operator) on a control plane of a test: its own manifests, and its program as a process."""

from __future__ import annotations

import os
from pathlib import Path

from hack import gobuild
from hack.bench.contestants import CONTESTANTS, TUNED_PEER, OperatorProcess
from hack.bench.environment import Environment
from hack.bench.measure import CONTESTANT_USER
from hack.controlplane import ControlPlane
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl

USERS = {CONTESTANT_USER: "system:masters"}
"""The user of the control plane that the Go operator goes by."""

WEBHOOKS = "validator.training-operator.kubeflow.org"

_KUSTOMIZATION = """
namespace: kubeflow
resources:
- {base}/webhook
- {base}/service.yaml
- {base}/deployment.yaml
"""


class GoOperator:
    """At most one process at a time, `start()` to `stop()`."""

    def __init__(self, plane: ControlPlane) -> None:
        self._environment = Environment(plane)
        self._kubectl = Kubectl(plane.kubeconfig)
        self._manifests = gobuild.module_folder(gobuild.PEER_PROGRAM.module, gobuild.PEER) / "manifests"
        self._process: OperatorProcess | None = None

    @property
    def crd(self) -> Path:
        """The file of its CRD for TFJobs."""
        return self._manifests / "base/crds/kubeflow.org_tfjobs.yaml"

    def apply_crd(self) -> None:
        """Apply its CRD for TFJobs as its documentation describes, and wait until TFJobs are served."""
        self._kubectl("apply", "--server-side", "--filename", str(self.crd))
        served = ("get", "--raw=/apis/kubeflow.org/v1/tfjobs")
        eventually(lambda: self._kubectl.run(*served).returncode == 0, every=0.1, what="TFJobs are served")

    def apply_manifests(self, folder: Path) -> None:
        """Apply its other manifests for a cluster: its Deployment (which starts nothing here), Service and webhooks.

        These webhooks get no answer, as when it is stopped.
        """
        base = Path(os.path.relpath(self._manifests / "base", folder.resolve()))
        (folder / "kustomization.yaml").write_text(_KUSTOMIZATION.format(base=base))
        rendered = self._kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder))
        self._kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=rendered)

    def start(self, *flags: str) -> None:
        """Start it, for all namespaces unless a flag limits it; return when it is ready."""
        assert self._process is None
        self._process = CONTESTANTS[TUNED_PEER].process(self._environment, flags)
        assert self._process is not None
        self._process.start()

    def stop(self) -> None:
        """Stop it. Idempotent."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def __enter__(self) -> GoOperator:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._environment.close()
