"""A pod's spec as typed values: every field that this project reads, checks or uses to run the pod.

The local node agent, which does the work of a kubelet, decodes pods with these types. The embedded API server and
`tfoperator.api` find values of wrong types with them (`api.fields.structure.type_problems`). The controller reads far
fewer fields of a pod: only the fields of `objects.Pod`, which these types extend. Every field has a default: if a
required field is missing, the decoder reports no error, because the validation of the job reports it.

Fields that no local runtime supports (probes, lifecycle hooks, affinity) are left out on purpose.
docs/reference/local-runtime.md lists these fields, and the fields that have no effect on containers that are processes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.kube.views.objects import PodSpec

GPU = "nvidia.com/gpu"
"""The name of the extended resource for GPUs. Its quantity is a number of whole devices, and the request must equal the
limit.
"""

DEFAULT_GRACE_SECONDS = 30
"""The default of Kubernetes for `terminationGracePeriodSeconds`."""


def verbatim(text: str) -> str:
    """Return the text escaped for a container's command, argument or variable, so the container gets it unchanged.

    In these texts, a kubelet replaces `$(NAME)`, and writes `$` for `$$`.
    """
    return text.replace("$", "$$")


class KeyRef(msgspec.Struct, frozen=True):
    """One key of a ConfigMap or Secret."""

    key: str = ""
    name: str = ""
    optional: bool = False


class FieldRef(msgspec.Struct, frozen=True, rename="camel"):
    """A field of the pod itself, for example `metadata.labels['app']`."""

    field_path: str = ""


class ResourceRef(msgspec.Struct, frozen=True, rename="camel"):
    """A limit or request of a container, for example `limits.cpu`, in units of the divisor.

    An empty `container_name` means the container that has the environment variable.
    """

    container_name: str = ""
    resource: str = ""
    divisor: str | int | float | None = None


class EnvSource(msgspec.Struct, frozen=True, rename="camel"):
    """The source of a variable's value. Exactly one field is set."""

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
    """Makes every key of a ConfigMap or Secret an environment variable."""

    prefix: str = ""
    config_map_ref: ObjectRef | None = None
    secret_ref: ObjectRef | None = None


class VolumeMount(msgspec.Struct, frozen=True, rename="camel"):
    """The mount of a volume in a container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port on which a container listens. With `hostPort` it is also a port of the host."""

    container_port: int = 0
    name: str = ""
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Capabilities(msgspec.Struct, frozen=True):
    """Linux capabilities that are added to or removed from the container engine's default capabilities."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    """The user and the privileges with which a container runs. Only pods have `fs_group` and `supplemental_groups`."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] | None = None
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    read_only_root_filesystem: bool | None = None
    capabilities: Capabilities | None = None


class ResourceRequirements(msgspec.Struct, frozen=True):
    """Quantities by the name of the resource, for example `{"memory": "1Gi"}`."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class ExitCodes(msgspec.Struct, frozen=True):
    """A set of exit codes. `In` means that a code is one of the values, `NotIn` that a code is none of the values."""

    operator: str = ""
    values: tuple[int, ...] = ()


class RestartRule(msgspec.Struct, frozen=True, rename="camel"):
    """The exit codes after which a container restarts. `action` is `Restart`."""

    action: str = ""
    exit_codes: ExitCodes | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """One container. If `command` is None, the image's entry point runs.

    `restart_policy` replaces the pod's policy. An init container with `Always` is a sidecar, which runs together with
    the other containers. The first of the `restart_policy_rules` that matches the exit code takes precedence over the
    policy.
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
    """One key of a ConfigMap or Secret as a file. `mode` contains the permission bits."""

    key: str = ""
    path: str = ""
    mode: int | None = None


class DownwardFile(msgspec.Struct, frozen=True, rename="camel"):
    """One field of the pod as a file, or a limit or request of one of its containers."""

    path: str = ""
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None
    mode: int | None = None


class ObjectSource(msgspec.Struct, frozen=True, rename="camel"):
    """A ConfigMap or Secret as files.

    A ConfigMap has its name in `name`. A Secret has its name in `secretName` in a volume, and in `name` in a projected
    volume.
    """

    name: str = ""
    secret_name: str = ""
    items: tuple[KeyToPath, ...] | None = None
    optional: bool = False
    default_mode: int | None = None


class DownwardSource(msgspec.Struct, frozen=True, rename="camel"):
    """Fields of the pod as files."""

    items: tuple[DownwardFile, ...] | None = None
    default_mode: int | None = None


class HostPathSource(msgspec.Struct, frozen=True):
    """A path of the machine on which the pod runs.

    `type` is the check that Kubernetes makes of the path, for example `DirectoryOrCreate`.
    """

    path: str = ""
    type: str = ""


class ClaimSource(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to a PersistentVolumeClaim by its name."""

    claim_name: str = ""


class TokenSource(msgspec.Struct, frozen=True, rename="camel"):
    """A token of the pod's service account as a file, for one audience. The token is renewed before it expires."""

    audience: str = ""
    expiration_seconds: int = 3600
    path: str = ""


class Projection(msgspec.Struct, frozen=True, rename="camel"):
    """Files that are made from objects of the API. They are a separate volume, or one source of a projected volume."""

    config_map: ObjectSource | None = None
    secret: ObjectSource | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")


class PartialSource(Projection, frozen=True, rename="camel"):
    """One source of a projected volume: a ConfigMap, a Secret, fields of the pod, or a token of the service account."""

    service_account_token: TokenSource | None = None


class ProjectedSource(msgspec.Struct, frozen=True, rename="camel"):
    """Several sources in the same directory. `default_mode` applies to the files of all sources."""

    sources: tuple[PartialSource, ...] = ()
    default_mode: int | None = None


class Volume(Projection, frozen=True, rename="camel"):
    """One volume of a pod.

    At most one of these sources is set. If no source is set, the volume is of a kind that no local runtime supports.
    """

    name: str = ""
    empty_dir: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None
    host_path: HostPathSource | None = None
    persistent_volume_claim: ClaimSource | None = None
    projected: ProjectedSource | None = None


class FullPodSpec(PodSpec, frozen=True, rename="camel"):
    """A pod's spec with every field that this project reads, checks or uses to run the pod."""

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

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """The containers of the pod, and then its init containers."""
        return (*self.containers, *(self.init_containers or ()))


class TemplateMetadata(msgspec.Struct, frozen=True):
    """The metadata that a pod gets from a template."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class FullPodTemplate(msgspec.Struct, frozen=True):
    """The template of the pods of a Deployment or of a replica type."""

    metadata: TemplateMetadata | None = None
    spec: FullPodSpec = msgspec.field(default_factory=FullPodSpec)
