"""The allocation of this machine's GPUs to pods.

Each GPU has a lock, so two control planes on one machine never allocate the same GPU. The lock is a lock of the kernel
(flock(2)) on an empty file. The kernel releases the lock when the process ends, also after a crash. All users of the
machine share the folder with these files, because they also share the GPUs.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from tfoperator.base.files import take_lock
from tfoperator.kube.views.pod_spec import GPU, Container
from tfoperator.local.gpus.allocation import Gpu, Links, choose, links_between, needed, share, visible
from tfoperator.local.gpus.nvml import NoGpus, Nvml
from tfoperator.local.runtime.measurements import ContainerName
from tfoperator.local.runtime.process.programs import CUDA_VISIBLE_DEVICES
from tfoperator.local.runtime.protocol import LocalPod

logger = logging.getLogger(__name__)

FOLDER = Path("/tmp/tfoperator-gpus")
"""The folder with the lock files. The folder is not in TMPDIR, because TMPDIR differs between users."""
_FOLDER_MODE = 0o1777
_LOCK_FILE_MODE = 0o644  # flock(2) needs only read access


class DeviceLocks:
    """The locks on devices that this process holds. Not thread-safe."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}  # device: file descriptor
        self._complained = False

    def try_all(self, devices: Iterable[str]) -> set[str]:
        """Lock each device that no other process has locked. Return the devices that this process holds now.

        If the lock file of a device can't be opened, the device counts as locked. The first such error is logged.
        """
        return {device for device in devices if device in self._held or self._try(device)}

    def release(self, devices: Iterable[str]) -> None:
        """Release the locks of these devices."""
        for device in devices:
            descriptor = self._held.pop(device, None)
            if descriptor is not None:
                os.close(descriptor)

    def release_all(self) -> None:
        """Release all locks."""
        self.release(tuple(self._held))

    def _try(self, device: str) -> bool:
        descriptor = None
        try:
            descriptor = self._open(f"{device}.lock")
            taken = take_lock(descriptor)
        except OSError as error:
            if descriptor is not None:
                os.close(descriptor)
            if not self._complained:
                logger.warning("GPUs can't be locked, so other runs may use the same GPUs: %s", error)
            self._complained = True
            return True
        if not taken:
            os.close(descriptor)
            return False
        self._held[device] = descriptor
        return True

    def _open(self, name: str) -> int:
        """Open the lock file `name` in the folder, and return its file descriptor.

        Create the file if it doesn't exist. Follow no link, and open only a regular file.
        """
        try:
            self._folder.mkdir(mode=_FOLDER_MODE)
            self._folder.chmod(_FOLDER_MODE)  # whatever the umask
        except FileExistsError:
            pass
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            try:
                # First without O_CREAT, which Linux refuses for another user's file in this folder (protected_regular).
                descriptor = os.open(name, flags, dir_fd=folder)
            except FileNotFoundError:
                descriptor = os.open(name, flags | os.O_CREAT, _LOCK_FILE_MODE, dir_fd=folder)
                os.fchmod(descriptor, _LOCK_FILE_MODE)
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{self._folder / name} is not a regular file")
        return descriptor


class GpuUse(msgspec.Struct, frozen=True):
    """The total use of the GPUs that are allocated to a container.

    `busy` is the number of busy devices, for example 1.5 of 2 `devices`. `memory` is the used memory of these GPUs in
    bytes.
    """

    devices: int
    busy: float
    memory: int


class NotEnoughGpus(Exception):
    """The pod has to wait for GPUs. The message has the scheduler's wording.

    `details` contains the numbers of requested GPUs and of free GPUs.
    """

    def __init__(self, asked: int, there: int, free: int) -> None:
        victims = "No preemption victims found for incoming pod"
        preemption = victims if asked <= there else "Preemption is not helpful for scheduling"
        available = "0/1 nodes are available: 1"
        super().__init__(f"{available} Insufficient {GPU}. preemption: {available} {preemption}.")
        self.details = f"{asked} requested, but {free} of {there} free on this machine"


class GpuManager:
    """Allocates the GPUs of this machine to pods, and measures their use.

    Thread-safe. The manager calls NVML only after `open()`. `close()` releases everything.
    """

    def __init__(
        self,
        *,
        library: Callable[[], Nvml] = Nvml,
        environ: Mapping[str, str] | None = None,
        locks: Path = FOLDER,
    ) -> None:
        """Use only the devices that CUDA_VISIBLE_DEVICES in `environ` allows.

        By default, `environ` is the environment of this process. `library` opens NVML. `locks` is the folder of the
        lock files.
        """
        self._library = library
        self._visible = (os.environ if environ is None else environ).get(CUDA_VISIBLE_DEVICES)
        self._nvml: Nvml | None = None
        self.problem = ""
        """The reason, for the user, why pods can't have GPUs of their own. Empty if pods can have GPUs."""
        self._manages = False  # whether there are devices, which are allocated to containers or hidden from them
        self._gpus: tuple[Gpu, ...] = ()
        self._links: Links = {}
        self._lock = threading.Lock()  # guards the two fields below; file locks are tried under it, never awaited
        self._held: dict[str, tuple[LocalPod, tuple[str, ...]]] = {}  # by UID: a pod that has devices, and its devices
        self._device_locks = DeviceLocks(locks)

    def open(self) -> None:
        """Find the GPUs. The call never raises: if there are no GPUs, `problem` contains the reason."""
        try:
            self._nvml = self._library()
        except NoGpus as error:
            self.problem = str(error)
            return
        gpus = self._nvml.gpus()
        self._manages = bool(gpus)
        self._gpus = visible(gpus, self._visible)
        if not self._gpus:
            self.problem = (
                f"{CUDA_VISIBLE_DEVICES}={self._visible} selects none of the {len(gpus)} GPUs of this machine"
                if gpus
                else "NVML finds no GPU on this machine"
            )
            return
        self._links = links_between(self._gpus)
        logger.info("%d GPUs: %s", len(self._gpus), ", ".join(f"{gpu.name} {gpu.uuid}" for gpu in self._gpus))

    def close(self) -> None:
        """Release the devices and the library. Idempotent."""
        with self._lock:
            self._device_locks.release_all()
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            nvml.close()

    @property
    def count(self) -> int:
        """The number of devices that pods can get."""
        return len(self._gpus)

    def acquire(self, pod: LocalPod) -> None:
        """Allocate the devices that a pod requests. The pod keeps them until `release`.

        Raises NotEnoughGpus if too few devices are free. If the machine has no GPUs, the pod gets none, and `problem`
        contains the reason.
        """
        asked = needed(pod)
        if not self._gpus or not asked:
            return
        uid = pod.metadata.uid
        with self._lock:
            if uid in self._held:
                return
            taken = {device for _, devices in self._held.values() for device in devices}
            free = [gpu.uuid for gpu in self._gpus if gpu.uuid not in taken]
            ours = self._device_locks.try_all(free)
            given = choose(asked, [device for device in free if device in ours], self._links)
            self._device_locks.release(ours - set(given or ()))
            if given is not None:
                self._held[uid] = pod, given
        if given is None:
            raise NotEnoughGpus(asked, len(self._gpus), len(ours))

    def release(self, pod: LocalPod) -> None:
        """Release the devices of a pod that has ended. Idempotent."""
        with self._lock:
            _, devices = self._held.pop(pod.metadata.uid, (pod, ()))
            self._device_locks.release(devices)

    def devices_of(self, pod: LocalPod, container: Container) -> tuple[str, ...] | None:
        """Return the UUIDs of the devices that are allocated to a container; the result may be empty.

        Return None if the machine has no GPUs that NVML can list.
        """
        if not self._manages:
            return None
        with self._lock:
            _, devices = self._held.get(pod.metadata.uid, (pod, ()))
        return share(pod, container, devices)

    def use(self) -> dict[ContainerName, GpuUse]:
        """Return the GPU use of every container that has devices. Calls NVML."""
        nvml = self._nvml
        with self._lock:
            held = list(self._held.values())
        if nvml is None or not held:
            return {}
        uses = nvml.use(device for _, devices in held for device in devices)
        by_container = {}
        for pod, devices in held:
            for container in pod.spec.containers:
                own = share(pod, container, devices)
                if own:
                    name = ContainerName(pod.metadata.namespace, pod.metadata.name, container.name)
                    measured = [uses[device] for device in own if device in uses]
                    by_container[name] = GpuUse(
                        len(own), sum(use.busy for use in measured), sum(use.memory for use in measured)
                    )
        return by_container
