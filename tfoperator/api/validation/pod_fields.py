"""Checks a handwritten pod template: its members' names (core/v1 up to Kubernetes 1.35), and their types. Pure.

The CRD leaves the pod template open, so an API server drops a misspelt member silently, and accepts a job with
`command: python train.py` or a number as a variable's value, whose pods it then can't read. A name that is missing here
costs a user no more than a needless warning; the types that are checked are those of `kube.pod_spec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfoperator.api.problems import Problem, shown
from tfoperator.api.quantity import parse_quantity
from tfoperator.api.structure import type_problems
from tfoperator.kube.pod_spec import FullPodTemplate

POD_TEMPLATE_FIELDS = frozenset({"metadata", "spec"})

POD_SPEC_FIELDS = frozenset(
    """
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
    ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
    initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates
    resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext
    serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds
    tolerations topologySpreadConstraints volumes workloadRef
    """.split()  # noqa: SIM905 - fifty quoted names would not be easier to read
)

CONTAINER_FIELDS = frozenset(
    """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
    resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
    terminationMessagePolicy tty volumeDevices volumeMounts workingDir
    """.split()  # noqa: SIM905 - fifty quoted names would not be easier to read
)


def shape_problems(template: Mapping[str, Any], path: str) -> list[Problem]:
    """Return every member of a pod template (plain data at `path`) that keeps an API server from reading its pods."""
    problems = type_problems(template, FullPodTemplate, path)
    return problems or list(_quantity_problems(template, path))


def _quantity_problems(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield the invalid quantities of a template whose types are right."""
    spec = template.get("spec") or {}
    for group in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(group) or ()):
            for kind in ("limits", "requests"):
                quantities = ((container or {}).get("resources") or {}).get(kind) or {}
                for resource, quantity in quantities.items():
                    if not _is_quantity(quantity):
                        yield Problem(
                            f"{path}.spec.{group}[{position}].resources.{kind}[{resource}]",
                            f"must be a quantity such as 4, 500m or 8Gi, but is {shown(quantity)}",
                        )


def _is_quantity(value: object) -> bool:
    if value is None:
        return True  # absent
    try:
        # API servers accept a fraction such as 0.5, too.
        parse_quantity(str(value) if isinstance(value, float) else value)
    except ValueError:
        return False
    return True
