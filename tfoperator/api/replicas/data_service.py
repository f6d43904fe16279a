"""The data service of a job: the names of its pods, its environment variables, and the default programs of its pods.

A data service (`tf.data.experimental.service`) runs input pipelines on separate machines. A dispatcher distributes the
work, and data workers do it. Both programs are the same in nearly every job, and need only their own address and the
dispatcher's address. So each program fits into the command of a container, and any image with TensorFlow 2.4 or later
can run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tfoperator.api.replicas.names import LABEL_DATA_SERVICE, LABEL_REPLICA_INDEX, parse_replica_index
from tfoperator.api.v1.parts.data_service import DataServiceStatus
from tfoperator.api.v1.status import parse_indexes

DEFAULT_DATA_SERVICE_PORT = 5050
"""The port of the dispatcher and of each data worker: the port in TensorFlow's documentation."""

DATA_SERVICE_POD_SET = "data-service"
"""The name of the pod set in a Kueue Workload for the dispatcher and the data workers, which have the same template."""

DATA_SERVICE = "TF_DATA_SERVICE"
"""The variable with the dispatcher's address (`grpc://host:port`), in training replicas and in the pods of the data
service.

A program can pass its value to `tf.data.experimental.service.distribute(service=...)` without changes.
"""
DATA_SERVICE_ADDRESS = "TF_DATA_SERVICE_ADDRESS"
"""The variable with the own address (`host:port`) of a dispatcher or data worker."""
DATA_SERVICE_WORK_DIR = "TF_DATA_SERVICE_WORK_DIR"
"""The variable of a dispatcher with the directory of its journal; empty if the dispatcher keeps no journal."""


class DataServiceRole(StrEnum):
    """The two programs of a data service, spelled as in the names of pods and in labels."""

    DISPATCHER = "dispatcher"
    WORKER = "dataworker"


LONGEST_MEMBER = "-dataworker-999"
"""The longest text that the name of a member adds to its job's name: there are at most 1,000 data workers."""

_ROLES = {role.value: role for role in DataServiceRole}

DataServiceMember = tuple[DataServiceRole, int]
"""A member of a data service: a role, and an index, which is 0 for the dispatcher."""

DISPATCHER: DataServiceMember = (DataServiceRole.DISPATCHER, 0)


def member_of(labels: Mapping[str, str]) -> DataServiceMember | None:
    """Return the member (role and index) of a data service to which an object with these labels belongs.

    Return None if the labels name no member.
    """
    role = _ROLES.get(labels.get(LABEL_DATA_SERVICE, ""))
    index = parse_replica_index(labels.get(LABEL_REPLICA_INDEX, ""))
    return None if role is None or index is None else (role, index)


def member_labels(member: DataServiceMember) -> dict[str, str]:
    """Return the labels that a member's pod and service have in addition to the labels of all objects of the job."""
    role, index = member
    return {LABEL_DATA_SERVICE: role.value, LABEL_REPLICA_INDEX: str(index)}


def member_suffix(member: DataServiceMember) -> str:
    """Return the part of a member's name after the job's name: `dispatcher-0`, `dataworker-3`."""
    role, index = member
    return f"{role.value}-{index}"


def started_members(status: DataServiceStatus) -> set[DataServiceMember]:
    """Return the members (the dispatcher and data workers) that have run, according to the job's status.

    If such a member has no pod now, its pod was deleted or evicted.
    """
    members: set[DataServiceMember] = {(DataServiceRole.WORKER, n) for n in parse_indexes(status.started_indexes)}
    return members | {DISPATCHER} if status.dispatcher_started else members


_START = """\
import os, signal, sys
# A container's first process has no default for signals, and a server in C++ keeps Python from noticing them.
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
try:
    import tensorflow as tf
    service = tf.data.experimental.service
    service.DispatchServer, service.WorkerServer
except (ImportError, AttributeError) as error:
    sys.exit("spec.dataService: this image has no TensorFlow with tf.data service (2.4 or later): %s. "
             "Name another image in spec.dataService.template" % error)
dispatcher = os.environ["TF_DATA_SERVICE"].split("://")[-1]
address = os.environ["TF_DATA_SERVICE_ADDRESS"]
port = int(address.rpartition(":")[2])
"""

_SERVE = """\
try:
    server = start()
except Exception as error:
    sys.exit("spec.dataService: can't serve at port %d: %s" % (port, error))
print("%s serves at port %d" % (name, port))
while True:
    signal.pause()
"""

_DISPATCHER = """\
name, journal = "dispatcher", os.environ.get("TF_DATA_SERVICE_WORK_DIR", "")
if journal:
    tf.io.gfile.makedirs(journal)
def start():
    return service.DispatchServer(service.DispatcherConfig(
        port=port, protocol="grpc", work_dir=journal or None, fault_tolerant_mode=bool(journal)))
"""

_WORKER = """\
name = "data worker"
def start():
    return service.WorkerServer(service.WorkerConfig(
        dispatcher_address=dispatcher, worker_address=address, port=port, protocol="grpc"))
"""

PROGRAMS: Mapping[DataServiceRole, str] = {
    DataServiceRole.DISPATCHER: _START + _DISPATCHER + _SERVE,
    DataServiceRole.WORKER: _START + _WORKER + _SERVE,
}
"""The source code of the programs, by role."""
