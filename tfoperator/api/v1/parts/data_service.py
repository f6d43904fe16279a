"""The data service of a job: its fields in the spec, and its state in the status."""

from typing import Annotated

import msgspec

from tfoperator.api.fields.field import Field
from tfoperator.api.fields.limits import MAX_DATA_WORKERS, MAX_PATH_LENGTH, MAX_PORT, WORK_DIR


class DataService(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A data service (tf.data service) for the job: a dispatcher and data workers, which end when the job ends.

    `template` is raw JSON, a pod template; it is empty (`b""`) when absent. Without a template, the pods are like the
    pods of a training replica, but without its devices. If `work_dir` is None or empty, the dispatcher keeps no
    journal.
    """

    workers: Annotated[
        int,
        Field(
            "Number of data workers. It can be changed while the job runs.",
            required=True,
            hint="the number of data workers",
            ge=1,
            le=MAX_DATA_WORKERS,
        ),
    ] = 0
    template: Annotated[
        msgspec.Raw,
        Field(
            "Template of the pods of the dispatcher and of the data workers. The container named tensorflow runs "
            "TensorFlow's own servers, unless it has a command. If unset, the pods are like the pods of the workers "
            "(of the chief if the job has no workers), without sidecars and devices.",
            kubernetes="PodTemplateSpec",
            # A second copy of all fields of pods would not fit into the annotation of `kubectl apply`.
            open=True,
        ),
    ] = msgspec.Raw()
    port: Annotated[
        int | None,
        Field(
            "Port of the dispatcher and of each data worker; 5050 if unset. The field can't be changed.",
            ge=1,
            le=MAX_PORT,
        ),
    ] = None
    work_dir: Annotated[
        str | None,
        Field(
            "Directory (or URL such as gs://bucket/journal) of the dispatcher's journal. If the directory is on a "
            "persistent volume, a restart of the dispatcher loses nothing. If unset, the dispatcher has no journal.",
            pattern=WORK_DIR,
            max_length=MAX_PATH_LENGTH,
        ),
    ] = None


class DataServiceStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of the job's data service. The data service is a part of the job, but the job never ends because of it.

    - `restarts`: how often the dispatcher and the data workers were restarted, in the same pod or in a new pod.
    - `restart_counts`: the number of restarts by member (`dataworker-2`), for each member with restarts.
    - `dispatcher_started` and `started_indexes` (indexes of data workers, `"0-3"`): the members that have run. If such
      a member has no pod now, its pod was deleted or evicted.
    - `message`: the reason why members do not run. It is empty if all members run, or have not been started yet.
    """

    address: Annotated[str, Field("Address of the dispatcher, as in TF_DATA_SERVICE.")] = ""
    ready: Annotated[
        str, Field("Number of pods that are ready, and number of all pods, including the dispatcher, such as 3/5.")
    ] = ""
    restarts: Annotated[int, Field("Number of restarts of the dispatcher and the data workers.")] = 0
    restart_counts: Annotated[
        dict[str, int],
        Field(
            "Number of restarts of each member that was restarted, by its name, such as dataworker-2.",
            schema={"maxProperties": 1001},
        ),
    ] = {}
    dispatcher_started: Annotated[bool, Field("Whether the dispatcher has ever run.")] = False
    started_indexes: Annotated[str, Field("Indexes of the data workers that have ever run, such as 0-3.")] = ""
    message: Annotated[str, Field("Reason why a part of the data service does not run; empty if all parts run.")] = ""

    @property
    def in_short(self) -> str:
        """The state of the data service on one line, for a person."""
        restarts = f", {self.restarts} restart{'' if self.restarts == 1 else 's'}" if self.restarts else ""
        ready = f", {self.ready} ready" if self.ready else ""
        return self.address + ready + restarts + (f" - {self.message}" if self.message else "")
