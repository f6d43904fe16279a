"""The rules by which kube-apiserver refuses a pod with correct types: for single fields and for combinations. Pure.

`pod` has the rules of a whole pod or template, and the other modules have the rules of its parts. The rules follow
Kubernetes 1.37 with its default features. Fields of other features have no rules, because an API server drops them. A
contract test compares the rules with kube-apiserver on random templates: both name the same fields.

The paths are the paths that kube-apiserver reports, even if these could be more exact: the path of a volume mount's
`subPath`, for example, lacks the position of the mount.
"""

from tfoperator.api.pods.rules.faults import Fault, Kind
from tfoperator.api.pods.rules.pod import pod_faults, template_faults

__all__ = ["Fault", "Kind", "pod_faults", "template_faults"]
