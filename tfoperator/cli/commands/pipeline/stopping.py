"""How commands that stop something reach its platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfoperator.cli.terminal.output import note

if TYPE_CHECKING:
    from tfoperator.launcher import LaunchContext


def patterned(namespace: str | None, kubeconfig: str | None, context: str | None) -> LaunchContext:
    """A context for launches that are only stopped."""
    from tfoperator.launcher import LaunchContext
    from tfoperator.launcher.core import connect

    return LaunchContext(namespace=namespace or "", kube=lambda: connect(kubeconfig, context), tell=note)
