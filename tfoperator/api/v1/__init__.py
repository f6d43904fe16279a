"""TFJob kubeflow.org/v1: the hub and storage version."""
