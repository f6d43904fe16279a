"""A cluster in one thread and virtual time: the embedded API server's storage, an operator, kubelets and users.

It does not wait, has no network, and makes no random choices. So the same steps give exactly the same journal.
"""
