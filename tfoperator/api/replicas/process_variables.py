"""The environment variables from which Keras 3 and JAX learn the processes of a job, in addition to TF_CONFIG. Pure.

| variables | read by |
|---|---|
| `KERAS_DISTRIBUTION_JOB_ADDRESSES`, `_NUM_PROCESSES`, `_PROCESS_ID` | `keras.distribution.initialize()` of Keras 3 |
| `JAX_COORDINATOR_ADDRESS` | `jax.distributed.initialize()`, also in Keras |
| `JAX_NUM_PROCESSES`, `JAX_PROCESS_ID` | programs for Kubeflow Trainer's JAX runtime |
| `COORDINATOR_ADDRESS`, `COORDINATOR_PORT`, `NUM_PROCESSES`, `PROCESS_ID` | programs for JAXJob (training operator) |

The names come from the code of Keras 3.15 and JAX 0.10. JAX itself accepts the count of processes and the process ID
only as arguments of `initialize()`, not as variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfoperator.api.v1.choices import ReplicaType

PROCESS_TYPES = (ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.WORKER)
"""The replica types whose replicas are processes of Keras and JAX, in the order in which the processes are numbered."""

KERAS_ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"
KERAS_COUNT = "KERAS_DISTRIBUTION_NUM_PROCESSES"
KERAS_INDEX = "KERAS_DISTRIBUTION_PROCESS_ID"
JAX_COORDINATOR = "JAX_COORDINATOR_ADDRESS"
JAX_COUNT = "JAX_NUM_PROCESSES"
JAX_INDEX = "JAX_PROCESS_ID"
COORDINATOR_HOST = "COORDINATOR_ADDRESS"
COORDINATOR_PORT = "COORDINATOR_PORT"
COUNT = "NUM_PROCESSES"
INDEX = "PROCESS_ID"

JAX_BIND_ADDRESS = "JAX_COORDINATOR_BIND_ADDRESS"
"""The address on which JAX's coordinator listens; without it, the coordinator listens at its port on every
interface.
"""

PROCESS_VARIABLES = (
    KERAS_ADDRESSES,
    KERAS_COUNT,
    KERAS_INDEX,
    JAX_COORDINATOR,
    JAX_COUNT,
    JAX_INDEX,
    COORDINATOR_HOST,
    COORDINATOR_PORT,
    COUNT,
    INDEX,
)
"""The variables that each process of a job gets."""

_MAX_ADDRESSES_LENGTH = 4096
"""The maximum number of characters of the list of addresses. Instead of a longer list, the variable has only the
coordinator's address; Keras needs nothing else from the list. Without this limit, the total size of a job's pods would
grow with the square of the number of its processes.
"""


class ProcessVariables:
    """The variables of the processes of one job. Immutable, thread-safe."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """Initialize; `addresses` has the `host:port` of each process.

        The first address is the address of process 0, the coordinator. If the list of addresses is too long for a
        variable, Keras gets only the coordinator's address, which is enough for Keras.
        """
        joined = ",".join(addresses)
        coordinator, count = addresses[0], str(len(addresses))
        host, _, port = coordinator.rpartition(":")
        self._common: Mapping[str, str] = {
            KERAS_ADDRESSES: joined if len(joined) <= _MAX_ADDRESSES_LENGTH else coordinator,
            KERAS_COUNT: count,
            JAX_COORDINATOR: coordinator,
            JAX_COUNT: count,
            COORDINATOR_HOST: host,
            COORDINATOR_PORT: port,
            COUNT: count,
        }

    def of_process(self, number: int) -> dict[str, str]:
        """Return the variables of the process with this number, from 0."""
        variables = {**self._common, KERAS_INDEX: str(number), JAX_INDEX: str(number), INDEX: str(number)}
        return {name: variables[name] for name in PROCESS_VARIABLES}
