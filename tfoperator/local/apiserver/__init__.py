"""A Kubernetes API server in memory: kube-apiserver's behaviour without etcd, on loopback.

Any client can use it (kubectl, client libraries, `tfoperator.kube.Client`). One contract suite runs against it and
against a real kube-apiserver; a difference is a bug here. `http` reads a request and sends its response, `registry`
performs writes by the rules in `objects`, `storage` keeps objects and their history, `display` encodes responses.
`server` connects these.
"""
