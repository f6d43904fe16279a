# ruff: noqa: N802 - these are the library's own names
"""A machine with GPUs, as NVIDIA's management library would show it: the functions of `pynvml` that we call."""

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tfoperator.local.gpus.manager import FOLDER as LOCKS

FOLDER = Path(__file__).with_name("fake_nvml")
"""Put first on PYTHONPATH it gives a program `pynvml` with the devices that this variable names:"""
VARIABLE = "FAKE_NVML_UUIDS"


def uuids(count: int) -> list[str]:
    """UUIDs of devices that no other test has."""
    return [f"GPU-{uuid.uuid4()}" for _ in range(count)]


def forget(devices: Sequence[str]) -> None:
    """Remove the locks of devices that tests no longer use; locks of real devices are few, and stay."""
    for device in devices:
        (LOCKS / f"{device}.lock").unlink(missing_ok=True)


def environment(devices: Sequence[str]) -> dict[str, str]:
    """Return the environment in which a program sees these devices."""
    root = FOLDER.parents[2]
    return {"PYTHONPATH": f"{FOLDER}{os.pathsep}{root}", VARIABLE: ",".join(devices)}


class NVMLError(Exception):
    """The error that every function of the library may raise."""


class FakeNvml:
    """`devices` by UUID; `peers` are the bus ids at the far ends of each device's links."""

    NVMLError = NVMLError
    NVML_NVLINK_MAX_LINKS = 18

    def __init__(self, devices: Sequence[str], peers: Mapping[str, Sequence[str]] | None = None) -> None:
        self.devices = list(devices)
        self.peers = dict(peers or {})
        self.driver = True
        self.broken: set[str] = set()
        self.busy = dict.fromkeys(devices, 50)
        self.used = dict.fromkeys(devices, 1 << 30)
        self.open = 0

    def nvmlInit(self) -> None:
        if not self.driver:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self._working(self.devices[index])

    def nvmlDeviceGetHandleByUUID(self, device: str) -> str:
        return self._working(device)

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"Test GPU"

    def nvmlDeviceGetPciInfo(self, handle: str) -> Any:
        return SimpleNamespace(busId=self.bus(handle))

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=80 << 30, used=self.used[self._working(handle)])

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return SimpleNamespace(gpu=self.busy[self._working(handle)])

    def nvmlDeviceGetNvLinkState(self, handle: str, link: int) -> int:
        if link >= len(self.peers.get(handle, ())):
            raise NVMLError("Not Supported")
        return 1

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: str, link: int) -> Any:
        return SimpleNamespace(busId=self.peers[handle][link])

    def bus(self, device: str) -> str:
        """Where a device is on the PCI bus."""
        return f"00000000:{self.devices.index(device):02X}:00.0"

    def _working(self, device: str) -> str:
        if device in self.broken or device not in self.devices:
            raise NVMLError("GPU is lost")
        return device
