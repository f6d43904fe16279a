"""Which members a pod's spec and its containers have (core/v1 up to Kubernetes 1.35), for spelling help only.

The CRD leaves the pod template open, so an API server drops a misspelt member of it without a word. A name that is
missing here costs a user no more than a needless warning.
"""

from __future__ import annotations

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
