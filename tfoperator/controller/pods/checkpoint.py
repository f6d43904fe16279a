"""`spec.checkpoint`: one volume for all replicas of a job, with a directory of the job's own in it.

The directory goes by the job's namespace and name, not by its UID: a job that failed for good is submitted again under
its name, and finding its last checkpoint then is what checkpoints are for.
"""

from __future__ import annotations

import msgspec

from tfoperator.api.names import CHECKPOINT_VARIABLE, CHECKPOINT_VOLUME
from tfoperator.api.templates import template_dict
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.pods.template import Template, TemplateError, list_of_objects


def mount_checkpoint(template: Template, job: TFJob) -> None:
    """Add the volume to a template, and the mount and the variable to its training container, if the job asks for it.

    Raises TemplateError if the template has another use for the volume's name or the mount's place.
    """
    checkpoint = job.spec.checkpoint
    if checkpoint is None:
        return
    try:
        source = template_dict(checkpoint.volume)
    except msgspec.ValidationError:
        raise TemplateError("spec.checkpoint.volume: must be an object") from None
    path = f"{template.path}.spec.volumes"
    volumes = list_of_objects(template.spec.get("volumes"), path)
    if any(volume.get("name") == CHECKPOINT_VOLUME for volume in volumes):
        raise TemplateError(f"{path}: must not have a volume named {CHECKPOINT_VOLUME}: that is spec.checkpoint's")
    mounts = template.list_of_objects("volumeMounts")
    for mount in mounts:
        if str(mount.get("mountPath")).rstrip("/") == checkpoint.mount_path.rstrip("/"):
            raise TemplateError(
                f"spec.checkpoint.mountPath: {checkpoint.mount_path} is where {template.path} mounts volume "
                f"{mount.get('name')}"
            )
    mount = {
        "name": CHECKPOINT_VOLUME,
        "mountPath": checkpoint.mount_path,
        "subPath": f"{job.metadata.namespace}/{job.metadata.name}",
    }
    template.spec = template.spec | {"volumes": [*volumes, source | {"name": CHECKPOINT_VOLUME}]}
    template.set_env(CHECKPOINT_VARIABLE, checkpoint.mount_path)
    template.change_container(volumeMounts=[*mounts, mount])
