"""The part of kube-controller-manager that the embedded control plane needs: the controller of Deployments.

(The garbage collector is part of the API server: `apiserver.registry`.)
"""
