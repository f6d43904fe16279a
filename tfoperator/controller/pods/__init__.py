"""The contents of a job's pods and services.

Builds a pod from the template, and from the additions of administrators and of the job's own fields: accelerators, the
checkpoint volume, arguments, TF_CONFIG, membership in a gang. The functions are pure. They return JSON-ready values
that may share parts, made from the job's spec and the options. The values don't depend on the state of the cluster.
"""
