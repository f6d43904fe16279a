"""The contents of a job's pods and services.

The template, and what administrators and the job's own fields add to it: accelerators, the checkpoint volume,
arguments, TF_CONFIG, membership in a gang. Pure: JSON-ready values that may share parts, made from the job's spec and
options; nothing here depends on the state of the cluster.
"""

from tfoperator.controller.pods.additions import Accelerator, ProgressAccess
from tfoperator.controller.pods.bodies import owner_reference
from tfoperator.controller.pods.gang import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    GangKind,
    GangScheduler,
    PodGroup,
    PodGroupSpec,
    decode_pod_group,
    gang_scheduler,
)
from tfoperator.controller.pods.manifests import (
    CHIEF_TYPES,
    DesiredReplicas,
    ReplicaManifests,
    restarts_in_place,
    restarts_together,
)
from tfoperator.controller.pods.naming import (
    NAMINGS,
    PLAIN_NAMES,
    UNIQUE_NAMES,
    Naming,
    is_service_of,
    naming_in_use,
    network_in_use,
)
from tfoperator.controller.pods.options import DEFAULT_TENSORBOARD_IMAGE, PodOptions
from tfoperator.controller.pods.resources import Resources, pod_requests
from tfoperator.controller.pods.scheduling_rules import ANY, AllowedNames, SchedulingRules
from tfoperator.controller.pods.template import PodTemplateError, Template
from tfoperator.controller.pods.tensorboard import (
    refused_service_type,
    tensorboard_deployment,
    tensorboard_service,
)

__all__ = [
    "ANY",
    "CHIEF_TYPES",
    "COSCHEDULING_POD_GROUPS",
    "DEFAULT_TENSORBOARD_IMAGE",
    "KUBERNETES_POD_GROUPS",
    "NAMINGS",
    "PLAIN_NAMES",
    "UNIQUE_NAMES",
    "VOLCANO_POD_GROUPS",
    "Accelerator",
    "AllowedNames",
    "DesiredReplicas",
    "GangKind",
    "GangScheduler",
    "Naming",
    "PodGroup",
    "PodGroupSpec",
    "PodOptions",
    "PodTemplateError",
    "ProgressAccess",
    "ReplicaManifests",
    "Resources",
    "SchedulingRules",
    "Template",
    "decode_pod_group",
    "gang_scheduler",
    "is_service_of",
    "naming_in_use",
    "network_in_use",
    "owner_reference",
    "pod_requests",
    "refused_service_type",
    "restarts_in_place",
    "restarts_together",
    "tensorboard_deployment",
    "tensorboard_service",
]
