"""TFJob kubeflow.org/v1: API servers store this version, and all other versions are converted to it and from it."""
