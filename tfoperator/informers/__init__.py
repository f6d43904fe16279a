"""Caches that follow collections of the API server: indexer, lister, shared informer, factory.

The design is client-go's (an informer lists once, watches for ever, and hands each change to handlers in order);
differences are noted in the code. A reader never calls the API server; a handler never holds up the cache.
"""

from tfoperator.informers.factory import InformerGroup, SharedInformerFactory
from tfoperator.informers.handlers import Callbacks, InformerMetrics
from tfoperator.informers.shared_informer import InformerStopped, SharedInformer
from tfoperator.informers.store import (
    CONTROLLER_UID_INDEX,
    ORPHANS_INDEX,
    IndexConflict,
    Indexer,
    IndexFunctionError,
    Lister,
    UnknownIndex,
    index_by_controller_uid,
    index_orphans,
)

__all__ = [
    "CONTROLLER_UID_INDEX",
    "ORPHANS_INDEX",
    "Callbacks",
    "IndexConflict",
    "IndexFunctionError",
    "Indexer",
    "InformerGroup",
    "InformerMetrics",
    "InformerStopped",
    "Lister",
    "SharedInformer",
    "SharedInformerFactory",
    "UnknownIndex",
    "index_by_controller_uid",
    "index_orphans",
]
