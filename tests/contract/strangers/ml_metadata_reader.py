"""Open the records of the digits example, which ran twice, with ML Metadata's own library; print its view of them.

Arguments: an empty text and a path, or the host, port, user, password and name of a database of PostgreSQL.
"""

import json
import sys
from typing import Any

from ml_metadata import ListOptions
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2

host, *rest = sys.argv[1:]
config = metadata_store_pb2.ConnectionConfig()
if host:
    port, user, password, name = rest
    config.postgresql.host, config.postgresql.port, config.postgresql.user = host, port, user
    config.postgresql.password, config.postgresql.dbname = password, name
else:
    (config.sqlite.filename_uri,) = rest
    config.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READWRITE
store = metadata_store.MetadataStore(config)


def state(execution: Any) -> str:
    """The name of an execution's state."""
    return str(metadata_store_pb2.Execution.State.Name(execution.last_known_state))


executions = {execution.id: execution for execution in store.get_executions()}
artifacts = {artifact.id: artifact for artifact in store.get_artifacts()}
runs = sorted(store.get_contexts_by_type("pipeline_run"), key=lambda context: context.id)
events = sorted(
    (
        executions[event.execution_id].type,
        metadata_store_pb2.Event.Type.Name(event.type),
        [step.key if step.HasField("key") else step.index for step in event.path.steps],
        artifacts[event.artifact_id].type,
    )
    for event in store.get_events_by_execution_ids(list(executions))
    if state(executions[event.execution_id]) == "COMPLETE"
)
careful = store.get_executions(ListOptions(filter_query="properties.alpha.double_value < 0.0005"))
best = store.get_artifacts(
    ListOptions(filter_query="type = 'ModelEvaluation' AND properties.model_0.double_value > 0.5")
)
answer = {
    "runs": {run.name: sorted(map(state, store.get_executions_by_context(run.id))) for run in runs},
    "parents": [parent.name for run in runs for parent in store.get_parent_contexts_by_context(run.id)],
    "nodes": sorted(context.name for context in store.get_contexts_by_type("node")),
    "events": events,
    "careful": sorted((execution.type, state(execution)) for execution in careful),
    "best": [[artifact.uri, metadata_store_pb2.Artifact.State.Name(artifact.state)] for artifact in best],
}
print(json.dumps(answer))
