"""What kube-apiserver refuses of a pod whose types are right: the rules within fields and across them. Pure.

`pod` has the rules of a whole pod or template, and the other modules have those of its parts. They follow Kubernetes
1.37 with the features that it has by default; fields of other features have no rules, for an API server drops them.
A contract test compares them with kube-apiserver on random templates: both name the same fields.

The paths are kube-apiserver's, also where these are less exact than they could be: a volume mount's `subPath`, for
example, is named without the position of the mount.
"""

from tfoperator.api.pods.rules.faults import Fault, Kind
from tfoperator.api.pods.rules.pod import pod_faults, template_faults

__all__ = ["Fault", "Kind", "pod_faults", "template_faults"]
