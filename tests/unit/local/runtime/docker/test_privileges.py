from __future__ import annotations

from typing import Any

import pytest

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.runtime.docker.privileges import check_privileges
from tfoperator.local.runtime.protocol import LaunchError


def check(context: dict[str, Any] | None = None, **spec: Any) -> None:
    pod = view(manifest("p", container(securityContext=context or {}), **spec))
    check_privileges(pod, pod.spec.containers[0])


@pytest.mark.parametrize(
    ("context", "spec", "words"),
    [
        ({"privileged": True}, {}, "securityContext.privileged"),
        ({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}, {}, "securityContext.capabilities.add SYS_ADMIN"),
        ({"capabilities": {"add": ["cap_sys_ptrace"], "drop": ["ALL"]}}, {}, "cap_sys_ptrace"),
        ({"capabilities": {"add": ["ALL"]}}, {}, "securityContext.capabilities.add ALL"),
        ({}, {"hostNetwork": True}, "hostNetwork"),
        ({}, {"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]}, "volume 'v' with hostPath /etc"),
    ],
)
def test_power_over_the_machine_needs_the_flag(context: dict[str, Any], spec: dict[str, Any], words: str) -> None:
    with pytest.raises(LaunchError, match="container 'tensorflow' would have power") as caught:
        check(context, **spec)
    assert words in str(caught.value)
    assert "--allow-privileged" in str(caught.value)
    assert caught.value.exit_code == 126


def test_what_stays_in_the_container_does_not() -> None:
    context = {"privileged": False, "runAsUser": 0, "allowPrivilegeEscalation": True}
    check({**context, "capabilities": {"add": ["CAP_NET_RAW", "chown"]}}, volumes=[{"name": "v", "emptyDir": {}}])
    check()
