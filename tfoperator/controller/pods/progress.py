"""Where a job's programs report their progress, and by what they are recognised: three variables and two files.

The authorities to trust come to a pod as an annotation of its own, which a volume shows as a file. A ConfigMap would
need the right to write ConfigMaps in every namespace, somebody who deletes them, and a watch. The token is one of the
pod's own service account, for this job's reports alone: with it nobody can ask an API server for anything.
"""

from __future__ import annotations

import msgspec

from tfoperator.api.progress_names import (
    ANNOTATION_PROGRESS_CA,
    CA_FILE,
    CA_VARIABLE,
    PROGRESS_MOUNT_PATH,
    PROGRESS_VOLUME,
    TOKEN_FILE,
    TOKEN_SECONDS,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    status_path,
    token_audience,
)
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.pods.template import Template, TemplateError, list_of_objects


class ProgressAccess(msgspec.Struct, frozen=True):
    """How pods reach the progress server: `url` is what its URLs begin with, `authorities` (PEM) whom to trust.

    With `for_all` jobs take part that don't say whether they want to.
    """

    url: str
    authorities: str
    for_all: bool = False


def reports_progress(job: TFJob, *, for_all: bool) -> bool:
    """Whether a job takes part: by its own word, else by the operator's."""
    own = job.spec.progress
    return for_all if own is None else own.enabled is not False


def give_access(template: Template, job: TFJob, access: ProgressAccess | None) -> None:
    """Add the volume, its mount and the variables to the training container, if the job takes part.

    A template that names a server of its own is left as it is. Raises TemplateError if the template has another use for
    the volume's name or the mount's place.
    """
    if access is None or not reports_progress(job, for_all=access.for_all):
        return
    if any(variable.get("name") == URL_VARIABLE for variable in template.env):
        return
    path = f"{template.path}.spec.volumes"
    volumes = list_of_objects(template.spec.get("volumes"), path)
    if any(volume.get("name") == PROGRESS_VOLUME for volume in volumes):
        raise TemplateError(f"{path}: must not have a volume named {PROGRESS_VOLUME}: that is for spec.progress")
    mounts = template.list_of_objects("volumeMounts")
    for mount in mounts:
        if str(mount.get("mountPath")).rstrip("/") == PROGRESS_MOUNT_PATH:
            raise TemplateError(
                f"spec.progress: {PROGRESS_MOUNT_PATH} is where {template.path} mounts volume {mount.get('name')}"
            )
    meta = job.metadata
    token = {
        "audience": token_audience(meta.namespace, meta.name),
        "expirationSeconds": TOKEN_SECONDS,
        "path": TOKEN_FILE,
    }
    authorities = {"fieldPath": f"metadata.annotations['{ANNOTATION_PROGRESS_CA}']"}
    sources = [
        {"serviceAccountToken": token},
        {"downwardAPI": {"items": [{"path": CA_FILE, "fieldRef": authorities}]}},
    ]
    template.spec = template.spec | {
        "volumes": [*volumes, {"name": PROGRESS_VOLUME, "projected": {"sources": sources}}]
    }
    template.annotations = template.annotations | {ANNOTATION_PROGRESS_CA: access.authorities}
    template.set_env(URL_VARIABLE, access.url + status_path(meta.namespace, meta.name))
    template.set_env(CA_VARIABLE, f"{PROGRESS_MOUNT_PATH}/{CA_FILE}")
    template.set_env(TOKEN_VARIABLE, f"{PROGRESS_MOUNT_PATH}/{TOKEN_FILE}")
    template.change_container(
        volumeMounts=[*mounts, {"name": PROGRESS_VOLUME, "mountPath": PROGRESS_MOUNT_PATH, "readOnly": True}]
    )
