"""tfoperator runs the manifests of distributed TensorFlow jobs (TFJob) on Kubernetes and on a laptop.

The package has layers, which ARCHITECTURE.md describes: `kube` and `api` at the bottom, `controller` in the middle,
`operator`, `local`, `sdk` and `cli` on top. A module never imports from a higher layer.
"""

__version__ = "0.1.0"
