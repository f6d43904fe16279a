"""The log archive: the output of containers, kept as files when they end and before their pod is deleted.

A pod's logs are on its node and are deleted with it, just when a user wants to know the cause of its end. The
operator writes the archive (`LogArchive`), clients that can see its directory or bucket read it (`archived_pods`).
"""
