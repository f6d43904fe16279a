"""tfoperator runs distributed TensorFlow jobs (TFJob) on Kubernetes, and the same YAML on a laptop.

The package is a house with floors (ARCHITECTURE.md walks through it): `kube` and `api` at the bottom,
`controller` in the middle, `operator`, `local`, `sdk` and `cli` on top. Imports point down only.
"""

__version__ = "0.1.0"
