"""The place for the checkpoints of a job."""

from typing import Annotated

import msgspec

from tfoperator.api.fields.field import Field
from tfoperator.api.fields.limits import MAX_PATH_LENGTH, MOUNT_PATH


class Checkpoint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The place where the replicas keep checkpoints: a volume that all of them mount, with a directory for each job.

    `volume` is raw JSON, a volume of a pod's spec without its name, such as `{"persistentVolumeClaim": {...}}`; empty
    (`b""`) when absent.
    """

    volume: Annotated[
        msgspec.Raw,
        Field(
            "A volume as in a pod's spec, but without a name: {persistentVolumeClaim: {claimName: checkpoints}}.",
            required=True,
            schema={"minProperties": 1},
            kubernetes="VolumeSource",
            brief=True,
        ),
    ] = msgspec.Raw()
    mount_path: Annotated[
        str,
        Field(
            "Path of the job's directory in the containers. The variable TFOPERATOR_CHECKPOINT_DIR contains this "
            "path, too.",
            required=True,
            pattern=MOUNT_PATH,
            max_length=MAX_PATH_LENGTH,
        ),
    ] = ""
