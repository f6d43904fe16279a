"""The volumes of containers: mounts in namespaces, or symbolic links where the machine permits no namespaces."""
