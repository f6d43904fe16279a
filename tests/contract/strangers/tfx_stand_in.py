"""Stands in for two programs of TFX: one runs an executor, and one, without an executor, runs before a component.

As TFX's programs do, it reads what it gets with TFX's own protobuf messages, and its parameters from the older member
unless it gets the specification of the inputs. Unlike TFX, it allows no unknown member. Each output that is no
value has a file `call.json` with all that the program got.
"""

import argparse
import json
import re
from pathlib import Path

from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

VALUES = {"tfx.String": "start_span_number: 2", "tfx.Integer": "7", "tfx.Float": "0.5", "tfx.Boolean": "1"}

parser = argparse.ArgumentParser()
parser.add_argument("--executor_class_path", default="")
parser.add_argument("--json_serialized_invocation_args", required=True)
parser.add_argument("--json_serialized_inputs_spec_args", default="")
given, beam = parser.parse_known_args()
got = json_format.Parse(given.json_serialized_invocation_args, pipeline_spec_pb2.ExecutorInput())
if given.json_serialized_inputs_spec_args:
    spec = json_format.Parse(given.json_serialized_inputs_spec_args, pipeline_spec_pb2.ComponentInputsSpec())
    parameters = {name: getattr(value, value.WhichOneof("kind")) for name, value in got.inputs.parameter_values.items()}
    for name, parameter in spec.parameters.items():
        if parameter.parameter_type == pipeline_spec_pb2.ParameterType.NUMBER_INTEGER and name in parameters:
            parameters[name] = int(parameters[name])
else:
    parameters = {name: getattr(value, value.WhichOneof("value")) for name, value in got.inputs.parameters.items()}


def title(artifact):
    """Return the type of an artifact. TFX refuses an artifact that has no type."""
    return re.match("title: (\\S+)", artifact.type.instance_schema)[1]


def described(artifact):
    """Return an artifact as JSON."""
    metadata = json_format.MessageToDict(artifact.metadata)
    return {"uri": artifact.uri, "name": artifact.name, "type": title(artifact), "metadata": metadata}


inputs = {name: [described(artifact) for artifact in these.artifacts] for name, these in got.inputs.artifacts.items()}
outputs = {name: these.artifacts[0] for name, these in got.outputs.artifacts.items()}
result = pipeline_spec_pb2.ExecutorOutput()
call = {"executor": given.executor_class_path, "beam": beam, "parameters": parameters, "inputs": inputs}
call["outputs"] = {name: described(artifact) for name, artifact in outputs.items()}
for name, artifact in outputs.items():
    made = result.artifacts[name].artifacts.add(name=artifact.name, uri=artifact.uri)
    made.metadata.CopyFrom(artifact.metadata)
    if not given.executor_class_path:
        made.metadata.update({"input_fingerprint": "seen"})
    elif title(artifact) in VALUES:
        Path(artifact.uri).write_text(VALUES[title(artifact)])
    else:
        Path(artifact.uri).mkdir(parents=True)
        Path(artifact.uri, "call.json").write_text(json.dumps(call))
    if name == "blessing":
        made.metadata.update({"blessed": 1, "current_model_id": inputs["model"][0]["name"]})
for name in got.outputs.parameters:
    result.parameter_values[name].string_value = Path(outputs[name].uri).read_text()
if not given.executor_class_path:
    result.parameter_values["span"].number_value = 3
    result.parameter_values["input_fingerprint"].string_value = "seen"
file = Path(got.outputs.output_file)
file.parent.mkdir(parents=True, exist_ok=True)
file.write_text(json_format.MessageToJson(result))
