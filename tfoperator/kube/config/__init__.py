"""Finds where an API server is and how to connect to it.

The sources of this configuration are a kubeconfig, a pod's service account, and explicit values.
"""
