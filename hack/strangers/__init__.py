"""Python programs of other projects for tests, in separate virtual environments.

`kubeflow-training` needs an older release of the `kubernetes` package than the operator has, so they can't share one
environment, nor can Kubeflow Pipelines; Airflow brings 145 packages of its own, MLflow 74; ML Metadata needs an older
protobuf. A file pins every version of each; an environment lies in the cache under the hash of its file, so a change of
it makes another.

Only commands install. Tests find: what is missing then is an error that names the command to run.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hack.gobuild import BUILD_COMMAND, cache_root, locked

CLIENTS = Path(__file__).with_name("requirements.txt")
AIRFLOW = Path(__file__).with_name("airflow.txt")
"""Airflow and its provider for Kubernetes."""
KFP = Path(__file__).with_name("kfp.txt")
"""The SDK of Kubeflow Pipelines, its compiler and its local runner; and kfp-kubernetes."""
KUBERNETES = Path(__file__).with_name("kubernetes.txt")
"""The oldest `kubernetes` package that tfoperator runs with."""
ML_METADATA = Path(__file__).with_name("ml_metadata.txt")
"""The library whose tables pipelines' records are in. It has files for Python up to 3.11."""
MLFLOW = Path(__file__).with_name("mlflow.txt")
"""MLflow, without what its server and client don't need: pyarrow, scikit-learn, matplotlib, docker."""
TFX = Path(__file__).with_name("tfx.txt")
"""TFX's own files, with the pipelines that its tests compare with, and what reads these. Its code can't run: it has
none of the packages that it needs, which are several gigabytes."""
INSTALL_SECONDS = 600.0


class StrangersError(Exception):
    """The environment can't be had; the message names the reason and a remedy."""


def find(requirements: Path = CLIENTS) -> Path:
    """The Python interpreter that has what a file pins. Raises StrangersError, which names the command to run."""
    python = _root(requirements) / "bin" / "python"
    if not python.is_file():
        raise StrangersError(f"what {requirements.name} of hack/strangers pins is not installed; run: {BUILD_COMMAND}")
    return python


def install() -> list[Path]:
    """Make what `find` finds, once. Safe to call from several processes at once. Raises StrangersError."""
    wanted = [CLIENTS, AIRFLOW, KFP, KUBERNETES, MLFLOW, TFX, *([ML_METADATA] if sys.version_info < (3, 12) else [])]
    return [_installed(requirements) for requirements in wanted]


def _installed(requirements: Path) -> Path:
    root = _root(requirements)
    with locked(root.with_suffix(".lock")):
        if not root.is_dir():
            print(f"installing {requirements.name} of hack/strangers (once) ...", file=sys.stderr, flush=True)
            # It is moved when it is complete; its scripts, which contain the first place, are never called.
            partial = Path(tempfile.mkdtemp(prefix="strangers-", dir=root.parent))
            try:
                _run(sys.executable, "-m", "venv", str(partial))
                python = str(partial / "bin" / "python")
                uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python)
                _run(*uv, "--compile-bytecode", "--no-deps", "-r", str(requirements))
                partial.rename(root)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return find(requirements)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise StrangersError(f"{' '.join(command)} took more than {INSTALL_SECONDS:.0f} s") from error
    if done.returncode != 0:
        raise StrangersError(f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")


def _root(requirements: Path) -> Path:
    version = ".".join(map(str, sys.version_info[:3]))
    key = hashlib.sha256(requirements.read_bytes() + version.encode()).hexdigest()[:16]
    return cache_root() / "strangers" / key
