"""The contents of a job's pods and services.

The template, and what administrators and the job's own fields add to it: accelerators, the checkpoint volume,
arguments, TF_CONFIG, membership in a gang. Pure: JSON-ready values that may share parts, made from the job's spec and
options; they don't depend on the state of the cluster.
"""
