"""What kube-controller-manager does in a cluster, as far as the embedded control plane needs it: Deployments.

(The garbage collector works inside the API server: `apiserver.registry`.)
"""

from tfoperator.local.controllers.deployment_controller import DeploymentController

__all__ = ["DeploymentController"]
