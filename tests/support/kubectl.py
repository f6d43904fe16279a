"""kubectl, of the release that the real control plane has."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from hack import gobuild
from hack.chart import MANIFESTS


def write_overlay(folder: Path, resources: Sequence[str], components: Sequence[str]) -> None:
    """Write an overlay into a folder, for `kubectl -k`: of these folders of manifests/ and of its components."""
    root = os.path.relpath(MANIFESTS, folder)  # kustomize takes no absolute paths
    overlay = {
        "resources": [f"{root}/{name}" for name in resources],
        "components": [f"{root}/components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))


class Kubectl:
    """Runs kubectl with a kubeconfig, in a namespace if one is given. It keeps its caches beside the kubeconfig."""

    def __init__(self, kubeconfig: Path, namespace: str = "") -> None:
        self.kubeconfig = kubeconfig
        chosen = (f"--namespace={namespace}",) if namespace else ()
        self._chosen = (f"--kubeconfig={kubeconfig}", *chosen)
        self._environment = {**os.environ, "HOME": str(kubeconfig.parent)}

    def run(
        self, *arguments: str, stdin: str = "", timeout: float = 120, editor: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; return the result, also if it failed. `editor` is the command that `kubectl edit` calls."""
        return subprocess.run(
            self._command(*arguments), input=stdin, capture_output=True, text=True, timeout=timeout,
            env={**self._environment, **({"KUBE_EDITOR": editor} if editor else {})}, check=False,
        )  # fmt: skip

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 120) -> str:
        """Run kubectl; return its output. If kubectl fails, the test fails with kubectl's output."""
        done = self.run(*arguments, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    @contextmanager
    def lines(self, *arguments: str) -> Iterator[Iterator[str]]:
        """The lines of a kubectl that does not end by itself; it is ended after 90 s, or with the context."""
        command = self._command("--request-timeout=90s", *arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self._environment) as process:
            assert process.stdout is not None
            try:
                yield iter(process.stdout)
            finally:
                process.kill()

    def _command(self, *arguments: str) -> list[str]:
        return [str(gobuild.find("kubectl")), *self._chosen, *arguments]
