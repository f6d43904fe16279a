"""A Kubernetes API server in memory. It behaves like kube-apiserver, but has no etcd, and listens only on loopback.

Any client can use it (kubectl, client libraries, `tfoperator.kube.Client`). One contract test suite runs against this
server and against a real kube-apiserver. If the results differ, this server has a bug. `http` reads a request and sends
its response. `registry` performs writes by the rules in `objects`. `storage` keeps objects and their history. `display`
encodes responses. `server` connects these.
"""
