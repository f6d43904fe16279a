"""A Kubernetes API server in memory: what kube-apiserver would say, without etcd, on loopback.

Any client can use it (kubectl, client libraries, `tfoperator.kube.Client`). One contract suite runs against it and
against a real kube-apiserver; a difference is a bug here. Read it in the order of a request: `server` listens, `api`
dispatches, `registry` writes by general rules and a kind's `strategies`, `store` keeps objects and their history,
`listing` and `watch` read, `garbage_collector` cleans up behind.
"""

from tfoperator.local.apiserver.logs import LogReader
from tfoperator.local.apiserver.server import EmbeddedApiServer

__all__ = ["EmbeddedApiServer", "LogReader"]
