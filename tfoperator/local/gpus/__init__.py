"""The GPUs of this machine: which there are, which pod has which, and how busy they are.

`GpuManager` is all that others use; `nvml` asks NVIDIA's library, `allocation` decides.
"""

from tfoperator.local.gpus.manager import GpuManager, GpuUse, NotEnoughGpus

__all__ = ["GpuManager", "GpuUse", "NotEnoughGpus"]
