"""The objects of a job: the pods and services of its replicas, its data service, PodGroup and TensorBoard."""
