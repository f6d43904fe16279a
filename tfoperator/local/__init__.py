"""The embedded control plane: an API server in memory, the operator, and a node agent that runs pods on this machine.

`apiserver` is the Kubernetes API. `controllers` and `node` use this API as in a cluster. `runtime` runs containers, and
`controlplane` starts all of these. `run` (`tfoperator run`) and `daemon` (`tfoperator local up`) use `controlplane`.
This module imports nothing, so that each command loads only the modules that it uses.
"""
