"""The log archive. It keeps the output of containers as files, when the containers end and before their pod is deleted.

A pod's logs are on its node. They are deleted with the pod, just when a user wants to find out why it ended. The
operator writes the archive (`LogArchive`). Clients that have access to its directory or bucket read it
(`archived_pods`).
"""
