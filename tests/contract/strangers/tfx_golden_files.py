"""Write the pipelines among the files that TFX's tests compare with into a folder, as TFX's runner writes them.

Argument: the folder. TFX has some as PipelineJobs, some as text of protobuf, and parts: a component, its executor and
its task. A pipeline is made of the parts, with a task for each task that the part's task reads from. TFX's own protobuf
messages read all of them.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from google.protobuf import json_format, text_format
from kfp.pipeline_spec import pipeline_spec_pb2

(place,) = map(Path, sys.argv[1:])
GOLDEN = (
    next(Path(path, "tfx") for path in sys.path if Path(path, "tfx").is_dir()) / "orchestration/kubeflow/v2/testdata"
)
PART = re.compile(r"expected_(.*?)_(component|executor|task)(?:_spec)?(_with_runtime_param)?(_\d)?")


def message(file):
    """Return the JSON of a file of text."""
    text = file.read_text()
    kind = re.search(r"proto-message: (\w+)", text)[1]

    return json_format.MessageToDict(text_format.Parse(text, getattr(pipeline_spec_pb2, kind)()))


def producers(pipeline, task):
    """Add to a pipeline a task for each task that a task reads from or waits for."""
    component = pipeline["components"][task["componentRef"]["name"]]
    tasks = pipeline["root"]["dag"]["tasks"]
    needed = defaultdict(dict)
    for name in task.get("dependentTasks", ()):
        needed[name] = {}
    for key, given in task.get("inputs", {}).get("artifacts", {}).items():
        source = given["taskOutputArtifact"]
        kind = component["inputDefinitions"]["artifacts"][key]
        needed[source["producerTask"]].setdefault("artifacts", {})[source["outputArtifactKey"]] = kind
    for given in task.get("inputs", {}).get("parameters", {}).values():
        if source := given.get("taskOutputParameter"):
            kind = {"parameterType": "STRING"}
            needed[source["producerTask"]].setdefault("parameters", {})[source["outputParameterKey"]] = kind
    for name, outputs in needed.items():
        if name not in tasks:
            tasks[name] = {"componentRef": {"name": name}}
            pipeline["components"][name] = {"executorLabel": name, "outputDefinitions": outputs}
            pipeline["deploymentSpec"]["executors"][name] = {"container": {"image": "busybox", "command": ["true"]}}


def assembled(parts, version):
    """Return a pipeline of the parts of a task, or of the two tasks of a resolver."""
    executors = {key: executor for part in parts["executor"] for key, executor in part["executors"].items()}
    root = {"inputDefinitions": {"parameters": {}}, "dag": {"tasks": {}}}
    pipeline = {
        "pipelineInfo": {"name": "parts"},
        "schemaVersion": version,
        "root": root,
        "components": {},
        "deploymentSpec": {"executors": executors},
    }
    for task in parts["task"]:
        name = task["componentRef"]["name"]
        root["dag"]["tasks"][task.get("taskInfo", {}).get("name") or name] = task
        wanted = f"{name}_executor"
        pipeline["components"][name] = next(
            component for component in parts["component"] if component["executorLabel"] == wanted
        )
        for given in task.get("inputs", {}).get("parameters", {}).values():
            if given.get("componentInputParameter"):
                root["inputDefinitions"]["parameters"][given["componentInputParameter"]] = {"parameterType": "STRING"}
    for task in list(root["dag"]["tasks"].values()):
        producers(pipeline, task)
    return pipeline


for folder, prefix, version in ((GOLDEN, "", "2.1.0"), (GOLDEN / "legacy", "legacy_", "2.0.0")):
    parts = defaultdict(lambda: defaultdict(list))
    for file in sorted(folder.glob("expected_*.*")):
        name = file.stem.removeprefix("expected_")
        if file.suffix == ".json":
            made = json.loads(file.read_text())
        elif "proto-message: PipelineSpec" in file.read_text():
            made = {**message(file), "schemaVersion": version}
        else:
            match = PART.fullmatch(file.stem)
            parts[f"{match[1]}{match[3] or ''}"][match[2]].append(message(file))
            continue
        (place / f"{prefix}{name}.json").write_text(json.dumps(made))
    for name, kinds in parts.items():
        if {"task", "component", "executor"} <= set(kinds):  # two parts are alone: a pipeline has them, too
            (place / f"{prefix}part_{name}.json").write_text(json.dumps(assembled(kinds, version)))
