"""Caches that follow collections of the API server: indexer, lister, shared informer, factory.

The design is client-go's: an informer lists once, then watches without end, and passes each change to its handlers in
order. Comments in the code describe the differences. A reader never calls the API server, and a handler never delays
the cache.
"""

from tfoperator.informers.delivery import Callbacks, InformerMetrics
from tfoperator.informers.factory import InformerGroup, SharedInformerFactory
from tfoperator.informers.store import (
    CONTROLLER_UID_INDEX,
    ORPHANS_INDEX,
    Lister,
    index_by_controller_uid,
    index_orphans,
)

__all__ = [
    "CONTROLLER_UID_INDEX",
    "ORPHANS_INDEX",
    "Callbacks",
    "InformerGroup",
    "InformerMetrics",
    "Lister",
    "SharedInformerFactory",
    "index_by_controller_uid",
    "index_orphans",
]
