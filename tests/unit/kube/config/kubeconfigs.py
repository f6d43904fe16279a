"""Kubeconfig files for tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Load = Callable[..., Any]
"""Loads a kubeconfig with a given user: the fixture `load`."""


def kubeconfig(server: str = "https://k8s.test:6443", **parts: Any) -> dict[str, Any]:
    """One cluster `c`, user `u` and current context `x`; `cluster`, `user` and `context` add fields to each."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server, **parts.get("cluster", {})}}],
        "users": [{"name": "u", "user": parts.get("user", {})}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **parts.get("context", {})}}],
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path
