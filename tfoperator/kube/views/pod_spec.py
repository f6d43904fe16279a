"""A pod's spec as typed values: every field that this project reads, checks or runs.

The node agent decodes pods with it; the embedded API server and `tfoperator.api` find wrong types with it
(`api.fields.structure.type_problems`). The controller reads far less of a pod: `objects.Pod`, which these types extend.
Every member has a default: a missing required member is an error of validation, not of types.

Fields that no local runtime supports (probes, lifecycle hooks, affinity) are left out on purpose. docs/local.md lists
them, and the fields that only containers can have, so that their absence is documented.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.kube.views.objects import PodSpec

GPU = "nvidia.com/gpu"
"""The extended resource: a number of whole devices, whose request equals the limit."""

DEFAULT_GRACE_SECONDS = 30
"""Kubernetes' own `terminationGracePeriodSeconds`."""


def verbatim(text: str) -> str:
    """Return the text escaped for a container's command, argument or variable, so that it arrives unchanged.

    A kubelet replaces `$(NAME)` in those, and writes `$` for `$$`.
    """
    return text.replace("$", "$$")


class KeyRef(msgspec.Struct, frozen=True):
    """One key of a ConfigMap or Secret."""

    key: str = ""
    name: str = ""
    optional: bool = False


class FieldRef(msgspec.Struct, frozen=True, rename="camel"):
    """A field of the pod itself, e.g. `metadata.labels['app']`."""

    field_path: str = ""


class ResourceRef(msgspec.Struct, frozen=True, rename="camel"):
    """A limit or request of a container (default: the variable's own): `limits.cpu`, in units of the divisor."""

    container_name: str = ""
    resource: str = ""
    divisor: str | int | float | None = None


class EnvSource(msgspec.Struct, frozen=True, rename="camel"):
    """Where the value of a variable comes from; exactly one member is set."""

    field_ref: FieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None
    resource_field_ref: ResourceRef | None = None


class EnvVar(msgspec.Struct, frozen=True, rename="camel"):
    """One environment variable."""

    name: str = ""
    value: str | None = None
    value_from: EnvSource | None = None


class ObjectRef(msgspec.Struct, frozen=True):
    """A whole ConfigMap or Secret."""

    name: str = ""
    optional: bool = False


class EnvFrom(msgspec.Struct, frozen=True, rename="camel"):
    """Every key of a ConfigMap or Secret as a variable."""

    prefix: str = ""
    config_map_ref: ObjectRef | None = None
    secret_ref: ObjectRef | None = None


class VolumeMount(msgspec.Struct, frozen=True, rename="camel"):
    """A volume's place in a container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port that a container listens on; with `hostPort` on the host, too."""

    container_port: int = 0
    name: str = ""
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Capabilities(msgspec.Struct, frozen=True):
    """Linux capabilities added to or dropped from the engine's default."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    """The user a container runs as, and its privileges. `fs_group` and `supplemental_groups` are a pod's only."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] | None = None
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    read_only_root_filesystem: bool | None = None
    capabilities: Capabilities | None = None


class ResourceRequirements(msgspec.Struct, frozen=True):
    """Quantities by name of the resource, e.g. `{"memory": "1Gi"}`."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class ExitCodes(msgspec.Struct, frozen=True):
    """Some exit codes: `In` the values, or `NotIn` them."""

    operator: str = ""
    values: tuple[int, ...] = ()


class RestartRule(msgspec.Struct, frozen=True, rename="camel"):
    """An action after some exit codes of a container: `Restart`."""

    action: str = ""
    exit_codes: ExitCodes | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """One container. `command` is None for the image's entry point.

    `restart_policy` replaces the pod's policy; an init container with `Always` is a sidecar, which runs beside the
    others. The first of the `restart_policy_rules` that names an exit code takes precedence over the policy.
    """

    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    working_dir: str = ""
    env: tuple[EnvVar, ...] | None = None
    env_from: tuple[EnvFrom, ...] | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    image_pull_policy: str = ""
    termination_message_path: str = ""
    termination_message_policy: str = ""
    ports: tuple[ContainerPort, ...] | None = None
    resources: ResourceRequirements | None = None
    security_context: SecurityContext | None = None
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] | None = None


class KeyToPath(msgspec.Struct, frozen=True):
    """One key of a ConfigMap or Secret as a file; `mode` holds permission bits."""

    key: str = ""
    path: str = ""
    mode: int | None = None


class DownwardFile(msgspec.Struct, frozen=True, rename="camel"):
    """One field of the pod as a file."""

    path: str = ""
    field_ref: FieldRef | None = None
    mode: int | None = None


class ObjectSource(msgspec.Struct, frozen=True, rename="camel"):
    """A ConfigMap (`name`) or Secret (`secretName` in a volume, `name` in a projection) as files."""

    name: str = ""
    secret_name: str = ""
    items: tuple[KeyToPath, ...] | None = None
    optional: bool = False
    default_mode: int | None = None


class DownwardSource(msgspec.Struct, frozen=True):
    """Fields of the pod as files."""

    items: tuple[DownwardFile, ...] | None = None


class HostPathSource(msgspec.Struct, frozen=True):
    """A path of this machine. `type` is Kubernetes' check of it, e.g. `DirectoryOrCreate`."""

    path: str = ""
    type: str = ""


class ClaimSource(msgspec.Struct, frozen=True, rename="camel"):
    """A PersistentVolumeClaim by name."""

    claim_name: str = ""


class TokenSource(msgspec.Struct, frozen=True, rename="camel"):
    """A token of the pod's service account as a file, for one audience; renewed before it expires."""

    audience: str = ""
    expiration_seconds: int = 3600
    path: str = ""


class Projection(msgspec.Struct, frozen=True, rename="camel"):
    """Files made from objects of the API: a separate volume, or one source of a projected volume."""

    config_map: ObjectSource | None = None
    secret: ObjectSource | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")


class PartialSource(Projection, frozen=True, rename="camel"):
    """One source of a projected volume: a source of a volume, or a token."""

    service_account_token: TokenSource | None = None


class ProjectedSource(msgspec.Struct, frozen=True):
    """Several sources in one directory."""

    sources: tuple[PartialSource, ...] = ()


class Volume(Projection, frozen=True, rename="camel"):
    """One volume of a pod. One of the sources is set, unless no local runtime supports the volume's kind."""

    name: str = ""
    empty_dir: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None
    host_path: HostPathSource | None = None
    persistent_volume_claim: ClaimSource | None = None
    projected: ProjectedSource | None = None


class FullPodSpec(PodSpec, frozen=True, rename="camel"):
    """The spec of a pod."""

    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    service_account_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None
    image_pull_secrets: tuple[dict[str, Any], ...] | None = None
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    security_context: SecurityContext | None = None


class TemplateMetadata(msgspec.Struct, frozen=True):
    """The metadata that a pod gets from a template."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class FullPodTemplate(msgspec.Struct, frozen=True):
    """The template of a Deployment's or a replica type's pods."""

    metadata: TemplateMetadata | None = None
    spec: FullPodSpec = msgspec.field(default_factory=FullPodSpec)
