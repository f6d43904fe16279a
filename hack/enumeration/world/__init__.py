"""A cluster in one thread and virtual time: the embedded API server's storage, an operator, kubelets and users.

Nothing in it waits, listens or draws lots: the same steps give the same journal, byte for byte.
"""
