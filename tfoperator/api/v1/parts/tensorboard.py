"""The TensorBoard of a job: its fields in the spec, and its state in the status."""

from typing import Annotated, Any

import msgspec

from tfoperator.api.fields.field import Field, named_items
from tfoperator.api.fields.limits import (
    MAX_LOG_DIR_LENGTH,
    MAX_NAME_LENGTH,
    MAX_OBJECT_NAME_LENGTH,
    MAX_PATH_LENGTH,
    MAX_VARIABLES,
    MAX_VOLUMES,
)
from tfoperator.api.v1.choices import TensorBoardServiceType


class TensorBoard(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A TensorBoard for the job: it runs until the job is deleted.

    `volumes` are the volumes of the TensorBoard's pod, and `volume_mounts` the mounts of its container. Both are plain
    JSON that the operator copies into the pod; callers must not change them. If `image` is None or empty, the
    TensorBoard runs the operator's image. `security_context` applies to the pod, and `env` to the container.
    """

    log_dir: Annotated[
        str,
        Field(
            "Place of the event files: a directory in a volume of the TensorBoard, or a URL such as gs://bucket/logs.",
            required=True,
            hint="the directory (or a URL such as gs://bucket/logs) that contains the event files",
            schema={"minLength": 1},
            max_length=MAX_LOG_DIR_LENGTH,
        ),
    ] = ""
    service_type: Annotated[
        str | None,
        Field(
            "Type of the TensorBoard's service (port 80): ClusterIP, or NodePort and LoadBalancer if the operator "
            "allows them.",
            choices=TensorBoardServiceType,
        ),
    ] = None
    volumes: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Volumes of the TensorBoard's pod, as in a pod's spec.",
            max_items=MAX_VOLUMES,
            kubernetes="[]Volume",
            brief=True,
            schema=named_items("volume", MAX_NAME_LENGTH),
        ),
    ] = ()
    volume_mounts: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Paths at which the TensorBoard's container mounts the volumes.",
            max_items=MAX_VOLUMES,
            kubernetes="[]VolumeMount",
            schema=named_items("volume", MAX_NAME_LENGTH, mountPath="Path of the volume in the container."),
        ),
    ] = ()
    security_context: Annotated[
        dict[str, Any] | None,
        Field(
            "Security context of the TensorBoard's pod. Defaults of single members: runAsNonRoot: true, runAsUser: "
            "65532 and seccompProfile: {type: RuntimeDefault}.",
            kubernetes="PodSecurityContext",
        ),
    ] = None
    env: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Environment variables of the TensorBoard's container. The operator sets TENSORBOARD_HOST and "
            "TENSORBOARD_PORT.",
            max_items=MAX_VARIABLES,
            kubernetes="[]EnvVar",
            schema=named_items("variable", MAX_PATH_LENGTH),
        ),
    ] = ()
    image_pull_secrets: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Secrets with the credentials for the TensorBoard's image.",
            max_items=MAX_VOLUMES,
            kubernetes="[]LocalObjectReference",
            schema=named_items("secret", MAX_OBJECT_NAME_LENGTH),
        ),
    ] = ()
    resources: Annotated[
        dict[str, Any] | None, Field("Resources of the TensorBoard's container.", kubernetes="ResourceRequirements")
    ] = None
    image: Annotated[str | None, Field("Image with TensorBoard; if unset, the operator's default image.")] = None
    node_selector: Annotated[
        dict[str, str] | None, Field("Labels that a node must have for the TensorBoard's pod.")
    ] = None
    service_account_name: Annotated[
        str | None, Field("Service account of the TensorBoard's pod. The pod gets no token of the account.")
    ] = None


class TensorBoardStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The address of the job's TensorBoard, and whether its web page responds."""

    url: Annotated[str, Field("Address of the TensorBoard.")] = ""
    ready: Annotated[bool, Field("Whether the TensorBoard answers.")] = False
