"""Writes: create, update, patch, delete, scale, bind, evict, and the garbage collection of objects without an owner.

`Registry` applies kube-apiserver's order of checks to every kind; differences between kinds are in the strategies of
`objects`. Confined to the server's event loop.
"""

from tfoperator.local.apiserver.registry.deletion import DeleteOptions
from tfoperator.local.apiserver.registry.garbage_collector import GarbageCollector
from tfoperator.local.apiserver.registry.patch import APPLY, Patcher, apply_configuration, patcher
from tfoperator.local.apiserver.registry.registry import Registry, WriteOptions, Written
from tfoperator.local.apiserver.registry.service_account_tokens import KEYS_PATH, KEYS_TYPE, TokenIssuer
from tfoperator.local.apiserver.registry.subresources import bind, evict, rescaled, scale_of

__all__ = [
    "APPLY",
    "KEYS_PATH",
    "KEYS_TYPE",
    "DeleteOptions",
    "GarbageCollector",
    "Patcher",
    "Registry",
    "TokenIssuer",
    "WriteOptions",
    "Written",
    "apply_configuration",
    "bind",
    "evict",
    "patcher",
    "rescaled",
    "scale_of",
]
