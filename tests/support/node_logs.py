"""Logs of nodes that come and go during the life of one embedded API server."""

from collections.abc import Iterator

from tfoperator.local.apiserver.http.pod_logs import LogReader
from tfoperator.local.runtime.log_files import LogRequest


def no_logs(_: LogRequest) -> Iterator[bytes]:
    """Of a node whose pods have written nothing."""
    raise LookupError("nothing was written")


class NodeLogs:
    """Serves the logs that `reader` has at the time: `EmbeddedApiServer(node=NodeStreams(logs.read))`."""

    def __init__(self) -> None:
        self.reader: LogReader = no_logs

    def read(self, wanted: LogRequest) -> Iterator[bytes]:
        """Read as the node of the moment does."""
        return self.reader(wanted)
