"""The embedded control plane: an API server in memory, the operator, and a node agent that runs pods on this machine.

`apiserver` is the Kubernetes API, `controllers` and `node` work against it as in a cluster, `runtime` runs containers,
and `controlplane` starts all of them. `run` (`tfoperator run`) and `daemon` (`tfoperator local up`) use that.
This module imports nothing, so that each command loads only the modules that it uses.
"""
