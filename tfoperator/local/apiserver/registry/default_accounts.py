"""The service account `default` of each namespace. A controller of kube-controller-manager creates it in a cluster.

Clients read the account, for example to add the names of Secrets with credentials for image registries.
"""

from __future__ import annotations

from collections.abc import Callable

from tfoperator.local.apiserver.registry.registry import DEFAULT_ACCOUNT, Registry, WriteOptions
from tfoperator.local.apiserver.resource_types import NAMESPACES, SERVICE_ACCOUNTS
from tfoperator.local.apiserver.storage.store import Store, StoreChange


class DefaultAccounts:
    """Creates the account `default` in each new namespace, and again if a client deletes it.

    Use this class only in the event loop.
    """

    def __init__(self, store: Store, registry: Registry, schedule: Callable[[Callable[[], None]], object]) -> None:
        """Observe changes of the store from now on. `schedule` runs a function after the write that caused a change."""
        self._registry = registry
        self._schedule = schedule
        store.observe(self._observe)

    def _observe(self, change: StoreChange) -> None:
        metadata = change.last.metadata
        if change.resource == NAMESPACES and change.old is None:
            self._schedule(lambda: self._ensure(metadata["name"]))
        elif change.resource == SERVICE_ACCOUNTS and change.new is None and metadata["name"] == DEFAULT_ACCOUNT:
            self._schedule(lambda: self._ensure(metadata["namespace"]))

    def _ensure(self, namespace: str) -> None:
        home = self._registry.find(NAMESPACES, "", namespace)
        if home is None or home.metadata.get("deletionTimestamp"):
            return
        if self._registry.find(SERVICE_ACCOUNTS, namespace, DEFAULT_ACCOUNT) is None:
            self._registry.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": DEFAULT_ACCOUNT}}, WriteOptions())
