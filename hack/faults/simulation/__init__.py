"""Simulates the rest of a cluster by API requests: users, kubelets, nodes, gang schedulers, Deployments' controller."""
