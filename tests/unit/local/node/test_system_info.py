import platform

import pytest

from tfoperator.local.node import system_info

FIELDS = {
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion",
    "machineID", "operatingSystem", "osImage", "systemUUID",
}  # fmt: skip
"""All fields of NodeSystemInfo that Kubernetes requires."""


def test_a_node_is_described_as_by_a_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    info, labels = system_info.node_info(), system_info.node_labels("here")
    assert info.keys() == FIELDS
    assert (info["architecture"], labels["kubernetes.io/arch"]) == ("arm64", "arm64")
    assert labels["kubernetes.io/hostname"] == "here"
    assert labels["kubernetes.io/os"] == info["operatingSystem"] == platform.system().lower()
    assert info["osImage"]
    conditions = {
        condition["type"]: condition["status"] for condition in system_info.node_conditions("2026-01-01T00:00:00Z")
    }
    healthy = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    assert conditions == {**healthy, "Ready": "True"}


def test_a_system_without_such_a_file_has_a_name_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise OSError("no such file")

    monkeypatch.setattr(platform, "freedesktop_os_release", missing)
    assert system_info.node_info()["osImage"] == platform.platform(terse=True)
