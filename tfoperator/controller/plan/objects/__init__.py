"""The objects of a job: pods and services, and the data service, PodGroup and TensorBoard beside them."""
