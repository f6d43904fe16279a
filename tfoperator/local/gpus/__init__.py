"""The GPUs of this machine: their list, their allocation to pods, and their utilisation.

Other packages use only `GpuManager`. `nvml` calls NVIDIA's library, and `allocation` decides which pod gets which GPUs.
"""
