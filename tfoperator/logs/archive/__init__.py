"""The log archive. It keeps the output of containers as files, when the containers end and before their pod is deleted.

In a cluster, a pod's logs are on its node, and are deleted with the pod. After that, a user may still want to find out
why the pod ended. The operator writes the archive (`LogArchive`). Clients that have access to the archive's directory
or bucket read the archive (`archived_pods`).
"""
