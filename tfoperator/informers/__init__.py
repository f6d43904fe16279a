"""Caches that follow collections of the API server: reflector, indexer, lister, shared informer, factory.

The design is client-go's (an informer lists once, watches for ever, and hands each change to handlers in order); the
places where it departs from it say so. A reader never calls the API server; a handler never holds up the cache.
"""

from tfoperator.informers.callbacks import Callbacks
from tfoperator.informers.errors import IndexConflict, IndexFunctionError, InformerStopped, UnknownIndex
from tfoperator.informers.factory import SharedInformerFactory
from tfoperator.informers.fifo import Delta, DeltaFifo, DeltaType, FifoClosed
from tfoperator.informers.group import InformerGroup
from tfoperator.informers.metrics import InformerMetrics
from tfoperator.informers.protocols import Cancellable
from tfoperator.informers.reflector.backoff import Backoff
from tfoperator.informers.reflector.reflector import Reflector
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.informers.store.indexer import Indexer
from tfoperator.informers.store.indexes import (
    CONTROLLER_UID_INDEX,
    ORPHANS_INDEX,
    index_by_controller_uid,
    index_orphans,
)
from tfoperator.informers.store.lister import Lister

__all__ = [
    "CONTROLLER_UID_INDEX",
    "ORPHANS_INDEX",
    "Backoff",
    "Callbacks",
    "Cancellable",
    "Delta",
    "DeltaFifo",
    "DeltaType",
    "FifoClosed",
    "IndexConflict",
    "IndexFunctionError",
    "Indexer",
    "InformerGroup",
    "InformerMetrics",
    "InformerStopped",
    "Lister",
    "Reflector",
    "SharedInformer",
    "SharedInformerFactory",
    "UnknownIndex",
    "index_by_controller_uid",
    "index_orphans",
]
