"""Caches of API server collections that keep themselves true: reflector, indexer, lister, shared informer, factory.

The design is client-go's (an informer lists once, watches for ever, and hands each change to handlers in order); the
places where it departs from it say so. A reader never calls the API server; a handler never holds up the cache.
"""

from tfoperator.informers.backoff import Backoff
from tfoperator.informers.delivery import Registration
from tfoperator.informers.errors import (
    IndexConflict,
    IndexFunctionError,
    InformerError,
    InformerStopped,
    ObjectNotFound,
    UnknownIndex,
)
from tfoperator.informers.factory import SharedInformerFactory
from tfoperator.informers.fifo import Delta, DeltaFifo, DeltaType, FifoClosed
from tfoperator.informers.group import InformerGroup
from tfoperator.informers.indexer import Indexer
from tfoperator.informers.indexes import (
    CONTROLLER_UID_INDEX,
    NAMESPACE_INDEX,
    ORPHANS_INDEX,
    IndexFunction,
    index_by_controller_uid,
    index_by_namespace,
    index_orphans,
)
from tfoperator.informers.lister import Lister
from tfoperator.informers.metrics import InformerMetrics, NoMetrics
from tfoperator.informers.mutation import CacheMutated
from tfoperator.informers.protocols import Cancellable, ResourceEventHandler, Sink, Transform
from tfoperator.informers.reflector import Reflector
from tfoperator.informers.shared_informer import SharedInformer

__all__ = [
    "CONTROLLER_UID_INDEX",
    "NAMESPACE_INDEX",
    "ORPHANS_INDEX",
    "Backoff",
    "CacheMutated",
    "Cancellable",
    "Delta",
    "DeltaFifo",
    "DeltaType",
    "FifoClosed",
    "IndexConflict",
    "IndexFunction",
    "IndexFunctionError",
    "Indexer",
    "InformerError",
    "InformerGroup",
    "InformerMetrics",
    "InformerStopped",
    "Lister",
    "NoMetrics",
    "ObjectNotFound",
    "Reflector",
    "Registration",
    "ResourceEventHandler",
    "SharedInformer",
    "SharedInformerFactory",
    "Sink",
    "Transform",
    "UnknownIndex",
    "index_by_controller_uid",
    "index_by_namespace",
    "index_orphans",
]
