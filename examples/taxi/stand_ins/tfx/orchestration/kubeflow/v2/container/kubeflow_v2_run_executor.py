"""Stands in for the program of this name in an image of TFX: it does a small part of the work of each component.

It takes the arguments of TFX's program, and writes the same document at the end. An executor that is not below writes
the names of what it was given. An installed TFX is found before this folder.
"""

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Artifacts = dict[str, dict[str, Any]]


def named(executor_input: dict[str, Any], side: str) -> Artifacts:
    """Return, by name, the URI and the properties of the first artifact of inputs or outputs."""
    found = executor_input[side].get("artifacts", {})
    return {name: entry["artifacts"][0] for name, entry in found.items() if entry["artifacts"]}


def written(artifact: dict[str, Any], name: str, value: object) -> None:
    """Write a file into the folder of an artifact."""
    folder = Path(artifact["uri"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value, sort_keys=True))


def read(artifact: dict[str, Any], name: str) -> Any:
    """Return the content of a file of an artifact."""
    return json.loads((Path(artifact["uri"]) / name).read_text())


def steps_of(model: dict[str, Any] | None) -> int:
    """Return the number of steps that a model is worth, 0 without a model."""
    return int(read(model, "model.json")["steps"]) if model else 0


def csv_example_gen(inputs: Artifacts, outputs: Artifacts, parameters: dict[str, Any]) -> Artifacts:
    """Read the lines of data.csv."""
    del inputs
    lines = Path(parameters["input_base"], "data.csv").read_text().splitlines()
    header, *rows = [line.split(",") for line in lines]
    written(outputs["examples"], "examples.json", [dict(zip(header, map(float, row), strict=True)) for row in rows])
    return {"examples": {"split_names": '["train", "eval"]', "span": parameters["span"]}}


def statistics_gen(inputs: Artifacts, outputs: Artifacts, parameters: dict[str, Any]) -> None:
    """Write the number of examples, and the means of their features."""
    del parameters
    rows = read(inputs["examples"], "examples.json")
    means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    written(outputs["statistics"], "statistics.json", {"rows": len(rows), "means": means})


def schema_gen(inputs: Artifacts, outputs: Artifacts, parameters: dict[str, Any]) -> None:
    """Write the features."""
    del parameters
    means = read(inputs["statistics"], "statistics.json")["means"]
    written(outputs["schema"], "schema.json", dict.fromkeys(means, "FLOAT"))


def trainer(inputs: Artifacts, outputs: Artifacts, parameters: dict[str, Any]) -> None:
    """Write a model: a number of steps."""
    # A model that begins with an earlier model is worth half of the steps of that, too.
    steps = json.loads(parameters["train_args"])["num_steps"] + steps_of(inputs.get("base_model")) // 2
    written(outputs["model"], "model.json", {"steps": steps, "features": sorted(read(inputs["schema"], "schema.json"))})
    written(outputs["model_run"], "run.json", {"steps": steps})


def evaluator(inputs: Artifacts, outputs: Artifacts, parameters: dict[str, Any]) -> Artifacts:
    """Bless a model that is worth more than the baseline."""
    del parameters
    model, baseline = steps_of(inputs["model"]), steps_of(inputs.get("baseline_model"))
    written(outputs["evaluation"], "evaluation.json", {"model": model, "baseline": baseline})
    blessed = int(model > baseline)
    written(outputs["blessing"], "BLESSED" if blessed else "NOT_BLESSED", "")
    return {"blessing": {"blessed": blessed, "current_model_id": inputs["model"]["name"]}}


def pusher(inputs: Artifacts, outputs: Artifacts, parameters: dict[str, Any]) -> None:
    """Copy a model to the folder from which it is served."""
    folder = Path(json.loads(parameters["push_destination"])["filesystem"]["base_directory"])
    shutil.copytree(inputs["model"]["uri"], folder, dirs_exist_ok=True)
    written(outputs["pushed_model"], "pushed.json", {"steps": steps_of(inputs["model"])})


def anything(inputs: Artifacts, outputs: Artifacts, parameters: dict[str, Any]) -> None:
    """Write the names of the inputs, and the parameters."""
    for name, artifact in outputs.items():
        written(artifact, f"{name}.json", {"inputs": sorted(inputs), "parameters": parameters})


EXECUTORS: dict[str, Callable[[Artifacts, Artifacts, dict[str, Any]], Artifacts | None]] = {
    "csv_example_gen": csv_example_gen,
    "statistics_gen": statistics_gen,
    "schema_gen": schema_gen,
    "trainer": trainer,
    "evaluator": evaluator,
    "pusher": pusher,
}


def main() -> None:
    """Run an executor, and write the document of its outputs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--executor_class_path", required=True)
    parser.add_argument("--json_serialized_invocation_args", required=True)
    given, _ = parser.parse_known_args()
    executor_input = json.loads(given.json_serialized_invocation_args)
    inputs, outputs = named(executor_input, "inputs"), named(executor_input, "outputs")
    name = next((part for part in given.executor_class_path.split(".") if part in EXECUTORS), "")
    parameters = executor_input["inputs"].get("parameterValues", {})
    properties = EXECUTORS.get(name, anything)(inputs, outputs, parameters) or {}
    artifacts = {
        name: {"artifacts": [{**artifact, "metadata": {**artifact.get("metadata", {}), **properties.get(name, {})}}]}
        for name, artifact in outputs.items()
    }
    file = Path(executor_input["outputs"]["outputFile"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"artifacts": artifacts}))


if __name__ == "__main__":
    main()
