"""NVIDIA's management library (NVML).

NVIDIA's own Python package `nvidia-ml-py` calls it; tfoperator installs this package only as an extra.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.local.gpus.allocation import Gpu

logger = logging.getLogger(__name__)

_DEVICES = Path("/proc/driver/nvidia/gpus")
"""The driver's list of devices. The driver provides this list even if the library is missing."""


class NoGpus(Exception):
    """There are no usable GPUs, or there is no library to identify GPUs.

    The message contains the reason, for the user.
    """


class Use(msgspec.Struct, frozen=True):
    """The use of a device.

    `busy` is the fraction of the last sample period in which the device computed (0 to 1). `memory` is the memory in
    use, in bytes.
    """

    busy: float
    memory: int


class Nvml:
    """The opened library. It is thread-safe, because NVML is thread-safe."""

    def __init__(self, module: Any = None) -> None:
        """Open the library. `module` contains the functions of `pynvml`. Raises NoGpus if the library can't be used."""
        if module is None:
            try:
                module = importlib.import_module("pynvml")
            except ImportError:
                if _DEVICES.is_dir() and any(_DEVICES.iterdir()):
                    raise NoGpus(
                        "this machine has NVIDIA GPUs, but nvidia-ml-py is not installed, so every process sees all of "
                        "them: pip install 'tfoperator[gpu]'"
                    ) from None
                raise NoGpus("no NVIDIA GPU can be used (no driver is loaded)") from None
        self._module = module
        try:
            module.nvmlInit()
        except module.NVMLError as error:
            raise NoGpus(f"no NVIDIA GPU can be used ({error})") from None

    def gpus(self) -> tuple[Gpu, ...]:
        """Return every device that responds, in NVML's order, which is the order of the PCI bus."""
        nvml = self._module
        gpus = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                bus = _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
                gpus.append(
                    Gpu(
                        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                        index=index,
                        name=_text(nvml.nvmlDeviceGetName(handle)),
                        memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                        bus=bus,
                        peers=self._peers(handle),
                    )
                )
            except nvml.NVMLError as error:  # a device may have fallen off the bus: the others are fine
                logger.warning("GPU %d does not answer, and is not used: %s", index, error)
        return tuple(gpus)

    def use(self, uuids: Iterable[str]) -> dict[str, Use]:
        """Return the use of these devices. Leave out devices that don't respond."""
        nvml = self._module
        uses = {}
        for uuid in uuids:
            try:
                handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
                busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
                uses[uuid] = Use(busy, int(nvml.nvmlDeviceGetMemoryInfo(handle).used))
            except nvml.NVMLError as error:
                logger.debug("the use of GPU %s can't be measured: %s", uuid, error)
        return uses

    def close(self) -> None:
        """Close the library."""
        try:
            self._module.nvmlShutdown()
        except self._module.NVMLError as error:
            logger.debug("NVML: %s", error)

    def _peers(self, handle: Any) -> tuple[str, ...]:
        nvml = self._module
        peers = []
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                if nvml.nvmlDeviceGetNvLinkState(handle, link):
                    peers.append(_text(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId))
            except nvml.NVMLError:  # a device without NVLink, or with fewer links
                break
        return tuple(peers)


def _text(value: Any) -> str:
    """Decode bytes, because older releases of `nvidia-ml-py` return bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
