"""Loads a kubeconfig with a given user."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.unit.kube.config.kubeconfigs import Load, kubeconfig, write
from tfoperator.kube.config.loading import load_config


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def do(
        user: dict[str, Any], server: str = "https://k8s.test", clock: FakeClock | None = None, trust=None, **parts: Any
    ):
        if trust is not None:
            parts["cluster"] = {"certificate-authority": str(trust.ca)}
        return load_config(str(write(tmp_path / "config", kubeconfig(server, user=user, **parts))), clock=clock)

    return do
