"""Where an API server is and how to connect to it: from a kubeconfig, a pod's service account, or explicit values."""
