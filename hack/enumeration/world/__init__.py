"""A cluster in one thread and virtual time: the embedded API server's storage, an operator, kubelets and users.

It doesn't wait, listen or draw lots: the same steps give the same journal, byte for byte.
"""
