"""The GPUs of this machine: the list of them, their allocation to pods, and their utilisation.

`GpuManager` is the only entry point for others; `nvml` calls NVIDIA's library, `allocation` decides.
"""
