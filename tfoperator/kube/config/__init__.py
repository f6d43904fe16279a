"""Finds where an API server is and how to connect to it.

Sources are a kubeconfig, a pod's service account, and explicit values.
"""
