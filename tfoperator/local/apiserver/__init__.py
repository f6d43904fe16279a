"""A Kubernetes API server in memory: what kube-apiserver would say, without etcd, on loopback.

Any client can use it (kubectl, client libraries, `tfoperator.kube.Client`). One contract suite runs against it and
against a real kube-apiserver; a difference is a bug here. A request takes this way: `http` reads it and answers,
`registry` carries writes out by the rules in `objects`, `storage` keeps objects and their history, `display` gives
answers their form. `server` puts these together.
"""

from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.resource_types import BUILTIN
from tfoperator.local.apiserver.server import EmbeddedApiServer

__all__ = ["BUILTIN", "EmbeddedApiServer", "StatusError"]
