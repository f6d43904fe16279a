"""The PodGroup of a job whose pods are scheduled together: what it asks for, and what its pods wait for."""

from tfoperator.controller.plan.gang.pod_group import gang_of, plan_pod_group

__all__ = ["gang_of", "plan_pod_group"]
