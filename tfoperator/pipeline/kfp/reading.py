"""Makes one graph from an IR, the YAML that Kubeflow's SDK compiles.

An IR has nested DAGs: a task runs a container, or is itself a DAG with tasks. Each task that runs a container becomes a
step, with the conditions and loops of all DAGs around it. The step of the task `add` in the DAG `inner` is `inner.add`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.base.files import local_path
from tfoperator.base.urls import shown_url
from tfoperator.base.yamldata.reader import MAX_BYTES, YamlError, read_documents
from tfoperator.launcher import ComponentError, ExecutorSpec, PlatformConfig
from tfoperator.launcher.component_file import parameter_values
from tfoperator.launcher.container.templates import rendered_value
from tfoperator.launcher.core.component import Json
from tfoperator.object_store import is_object_url
from tfoperator.pipeline.dsl.standard_artifacts import VALUES
from tfoperator.pipeline.graph import Graph, Source, Step, made_graph
from tfoperator.pipeline.kfp.claims import IMAGES, ClaimSpec
from tfoperator.pipeline.kfp.container import PLACEHOLDER, IRContainerSpec, configs_of, retry_of
from tfoperator.pipeline.kfp.jobs import OLD_SCHEMA, pipeline_and_settings
from tfoperator.pipeline.kfp.options import FORM, options_of, producers
from tfoperator.pipeline.kfp.parts import (
    Made,
    Named,
    as_value,
    chosen_output,
    definitions_of,
    fits,
    given_artifact,
    imported,
    in_turn,
    kind_of,
    member,
    read_condition,
    type_of,
    typed,
    with_inputs,
)
from tfoperator.pipeline.kfp.resolvers import resolved
from tfoperator.pipeline.kfp.settings import IMAGE, RESOURCES, check_settings
from tfoperator.pipeline.kfp.spec import PLATFORMS, check
from tfoperator.pipeline.kfp.task_inputs import (
    artifacts_of,
    conditional_artifact,
    loops_of,
    parameter_of,
    parameters_of,
)
from tfoperator.pipeline.store.database import is_name
from tfoperator.pipeline.values import COLLECT, OUTPUT, Value

_MAX_DEPTH = 30
_MAX_TASKS = 2000
_OPTIONS = "platforms.kubernetes.deploymentSpec.executors"
_STRATEGIES = {"ALL_UPSTREAM_TASKS_SUCCEEDED": False, "ALL_UPSTREAM_TASKS_COMPLETED": True}
"""For each `triggerPolicy.strategy`: whether the task runs even if a task before it has failed."""
_PROGRAM_BEFORE, _REPORT = ".pre-cache-check", "executor_output"
"""The program of `preCacheCheck` becomes a step that runs before the task's own step. `_PROGRAM_BEFORE` is the end of
the name of this step (`train.pre-cache-check`). `_REPORT` is the name of the output of this step.
"""

Configs = dict[str, dict[str, list[PlatformConfig]]]
"""Platform configs. The first key is the platform, such as `docker`. The second key is the step."""


def read_ir(path: str, given: Mapping[str, str]) -> tuple[Graph, Json, Configs]:
    """Return the pipeline of a file, the values of its parameters, and its platform configs by platform and step.

    `given` has the parameters of the user as text (`--param NAME=TEXT`). Raises OSError if the file can't be read.
    Raises ComponentError with a message that names the place in the file, such as `root.dag`.
    """
    with Path(path).open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    try:
        documents = [document.value for document in read_documents(data, path)]
        if not documents or len(documents) > 2:
            raise ComponentError(
                "the file must have one document with the pipeline, and at most one more document with platform "
                "settings"
            )
        return _Reading(documents[0], documents[1] if len(documents) > 1 else {}).read(given)
    except YamlError as error:
        raise ComponentError(str(error)) from None
    except ComponentError as error:
        raise ComponentError(f"{path}: {error}") from error


def _executors_of(part: Json) -> Json:
    executors: Json = part.get("deploymentSpec", {}).get("executors", {})
    return executors


class _Reading:
    def __init__(self, pipeline: Any, platforms: Any) -> None:
        check("platform spec", platforms, PLATFORMS)
        self._pipeline, self._settings = pipeline_and_settings(pipeline)
        by_platform = platforms.get("platforms", {})
        self._platforms: Json = _executors_of(by_platform.get("tfoperator", {}))
        self._options: Json = _executors_of(by_platform.get("kubernetes", {}))
        for label, options in self._options.items():
            check(f"{_OPTIONS}.{label}", options, FORM)
        self._executors: Json = _executors_of(self._pipeline)
        self._steps: list[Step] = []
        self._tasks = 0
        self._configs: Configs = {"docker": {}, "process": {}, "kubernetes": {}}

    def read(self, given: Mapping[str, str]) -> tuple[Graph, Json, Configs]:
        name, root = self._pipeline.get("pipelineInfo", {}).get("name", ""), self._pipeline["root"]
        wanted, problems = definitions_of(root, "input", "parameters"), list[str]()
        artifacts = self._given_artifacts(root, given, problems)
        examples = {key: type_of(f"root: {key}", definition)[1] for key, definition in wanted.items()}
        texts = {key: text for key, text in given.items() if key in wanted or key not in artifacts}
        values = parameter_values(examples, texts, problems)
        settings = self._settings.values
        problems += [f"runtimeConfig: the pipeline has no parameter {key!r}" for key in settings.keys() - wanted.keys()]
        for key, definition in wanted.items():
            if key not in given:
                values[key] = typed(definition, settings.get(key, definition.get("defaultValue")))
                if key in settings and not fits(values[key], examples[key]):
                    kind = definition.get("parameterType", "STRING")
                    problems.append(f"runtimeConfig: {key!r} must be {kind}, but is {values[key]!r:.60}")
                if values[key] is None and not definition.get("isOptional"):
                    problems.append(f"parameter {key!r} is missing: --param {key}=VALUE")
        if "dag" not in root:
            problems.append("root.dag is missing")
        if problems:
            raise ComponentError("\n".join(["its parameters are not valid:", *problems]))
        self._dag(root, Step("", "", ExecutorSpec(), inputs=artifacts, exec_properties=values))
        place = self._settings.root or self._pipeline.get("defaultPipelineRoot") or f"{name}-root"
        graph = made_graph(name, place, self._steps, enable_cache=True)
        if local_path(place) is None and not is_object_url(place):
            field = "gcsOutputDirectory" if self._settings.root else "defaultPipelineRoot"
            raise ComponentError(
                f"{field} {shown_url(place)}: must be a directory, or a URL that begins with s3://, gs:// or az://"
            )
        return graph, {**values, **{key: given[key] for key in artifacts}}, self._configs

    def _given_artifacts(self, root: Json, given: Mapping[str, str], problems: list[str]) -> dict[str, Source]:
        artifacts: dict[str, Source] = {}
        for key, definition in definitions_of(root, "input", "artifacts").items():
            if key in definitions_of(root, "input", "parameters"):
                problems.append(f"root.inputDefinitions: {key!r} is the name of both a parameter and an artifact")
            elif key in given:
                artifacts[key] = given_artifact(f"artifact {key!r}", definition, given[key])
            elif not definition.get("isOptional"):
                problems.append(f"artifact {key!r} is missing: --param {key}=URI")
        return artifacts

    def _dag(self, component: Json, scope: Step) -> dict[str, Made]:
        """Read the tasks of a DAG, and return them by name.

        `scope` is a Step that never runs, and describes the DAG: it has the DAG's name, its inputs and parameters, and
        the conditions and loops around it.
        """
        if scope.name.count(".") >= _MAX_DEPTH:
            raise ComponentError(f"{scope.name[:200]}: has more than {_MAX_DEPTH} levels of nested DAGs")
        made: dict[str, Made] = {}
        tasks = {name: self._after_options(task) for name, task in component["dag"].get("tasks", {}).items()}
        for name in in_turn(scope.name, tasks):
            made[name] = self._task(name, tasks[name], scope, made)
        return made

    def _after_options(self, task: Json) -> Json:
        """Return `task` with more `dependentTasks`: its Kubernetes options use outputs of these additional tasks."""
        component = self._pipeline.get("components", {}).get(task.get("componentRef", {}).get("name", ""), {})
        named = producers(self._options.get(component.get("executorLabel", ""), {}))
        return {**task, "dependentTasks": sorted(named.union(task.get("dependentTasks", ())))} if named else task

    def _task(self, name: str, task: Json, scope: Step, made: Mapping[str, Made]) -> Made:
        # A dot joins the names of a DAG and of a task in it. TFX's names contain dots and spaces: `-` replaces them.
        where = f"{scope.name}{'.' * bool(scope.name)}{re.sub('[. ]', '-', name)}"
        self._tasks += 1
        if self._tasks > _MAX_TASKS:
            raise ComponentError(f"{where[:200]}: has more than {_MAX_TASKS} tasks")
        named = task.get("componentRef", {}).get("name", "")
        component = member(where, self._pipeline.get("components", {}), named, "component ")
        trigger = task.get("triggerPolicy", {})
        strategy = trigger.get("strategy", "ALL_UPSTREAM_TASKS_SUCCEEDED")
        own = member(f"{where}.triggerPolicy", _STRATEGIES, strategy, "strategy ")
        behind = [step for other in task.get("dependentTasks", ()) for step in made[other].last]
        all_parameters = parameters_of(where, name, task, component, scope, made)
        parameters = {key: all_parameters[key] for key in definitions_of(component, "input", "parameters")}
        inputs = artifacts_of(where, task, component, scope, made)
        loops = loops_of(where, task, scope, parameters, inputs)
        condition = trigger.get("condition")
        named = Named(partial(member, where, parameters), partial(conditional_artifact, where, task, inputs))
        when = (*scope.when, read_condition(condition, named)) if condition else scope.when
        inner = msgspec.structs.replace(
            scope,
            name=where,
            inputs=inputs,
            exec_properties=parameters,
            when=when,
            loops=loops,
            behind=(*scope.behind, *behind),
            always=own or scope.always,
            needs=scope.needs if own else (*scope.needs, *behind),
        )
        if "dag" in component:
            inner_tasks = self._dag(component, inner)
            outputs = component["dag"].get("outputs", {})
            result = Made(
                tuple([step for each in inner_tasks.values() for step in each.steps]),
                {
                    key: chosen_output(where, output, inner_tasks)
                    for key, output in outputs.get("parameters", {}).items()
                },
                {
                    key: chosen_output(where, output, inner_tasks)
                    for key, output in outputs.get("artifacts", {}).items()
                },
            )
        else:
            label = component.get("executorLabel", "")
            place = f"{where}: Kubernetes options"
            options = options_of(
                place, self._options.get(label, {}), lambda given: parameter_of(place, given, scope, made)
            )
            result = self._executed(
                task, component, msgspec.structs.replace(inner, settings=options), {**all_parameters, **parameters}
            )
        result = msgspec.structs.replace(result, last=_last(result.steps) or inner.behind)
        if loops == scope.loops:
            return result
        # A task outside of the loop gets the outputs of all iterations as a list.
        parameters, artifacts = (
            {
                key: Value(COLLECT, (len(scope.loops), loops[-1], as_value(where, output)))
                for key, output in side.items()
            }
            for side in (result.parameters, result.artifacts)
        )
        return msgspec.structs.replace(result, parameters=parameters, artifacts=artifacts)

    def _executed(self, task: Json, component: Json, scope: Step, all_parameters: Mapping[str, Any]) -> Made:
        where, label = scope.name, component.get("executorLabel", "")
        executor = member(where, self._executors, label, "executor ")
        if "importer" in executor:
            output = next(iter(definitions_of(component, "output", "artifacts")), "artifact")
            return imported(where, executor["importer"], scope.exec_properties, output)
        if "resolver" in executor:
            return resolved(where, executor["resolver"], scope.inputs, all_parameters)
        if "container" not in executor:
            raise ComponentError(f"executors.{label}: must have a container")
        values = {
            key: type_of(where, definition)[0]
            for key, definition in definitions_of(component, "output", "parameters").items()
        }
        sides = (definitions_of(component, "input", "artifacts"), definitions_of(component, "output", "artifacts"))
        kinds = {key: definition.get("artifactType", {}) for side in sides for key, definition in side.items()}
        container = executor["container"]
        action = IMAGES.get(container.get("image", ""))
        contents = tuple([key for key, definition in sides[0].items() if kind_of(definition, "artifactType") in VALUES])
        image = _image(f"executors.{label}.container.image", container.get("image", ""), all_parameters)
        program = IRContainerSpec(
            str(image),
            tuple(container.get("command", ())),
            tuple(container.get("args", ())),
            task=where,
            parameters=tuple(definitions_of(component, "input", "parameters")),
            artifacts=kinds,
            values=tuple(values),
            contents=contents,
            old_schema=self._pipeline.get("schemaVersion") == OLD_SCHEMA,
        )
        spec: ExecutorSpec = program if action is None else ClaimSpec(action)
        outputs = {key: kind_of(definition, "artifactType") for key, definition in sides[1].items()} | values
        for key in (*outputs, *sides[0]):
            if not re.fullmatch(r"[\w.-]*\w", key):
                raise ComponentError(
                    f"{where}: {key!r} can't be the name of an input or output, because files get this name: use "
                    "letters, digits, '_', '-' and '.', but not '-' or '.' at the end"
                )
        kind = label.removeprefix("exec-").removesuffix("_executor")
        step = msgspec.structs.replace(
            scope,
            kind=kind if kind and is_name(kind) else where,
            executor_spec=spec,
            outputs=outputs,
            properties={
                key: definition["metadata"] for key, definition in sides[1].items() if definition.get("metadata")
            },
            exec_properties={key: value for key, value in scope.exec_properties.items() if value is not None},
            needs=scope.needs if scope.always else (),
            retry=retry_of(where, task.get("retryPolicy")),
            # The cache key does not include the files of a claim, which may have changed.
            cache=task.get("cachingOptions", {}).get("enableCache", False) and "pvcMount" not in scope.settings,
        )
        parameters, artifacts = ({key: Value(OUTPUT, (where, key)) for key in side} for side in (values, sides[1]))
        if action is not None:
            self._steps.append(msgspec.structs.replace(step, settings={}))
            return Made((where,), parameters, artifacts)
        resources = with_inputs(
            f"executors.{label}.container.resources", container.get("resources", {}), all_parameters
        )
        late = {name: value for name, value in ((RESOURCES, resources), (IMAGE, image)) if isinstance(value, Value)}
        check_settings(where, step.settings)
        fixed = {**container, "resources": {} if RESOURCES in late else resources}
        steps = [msgspec.structs.replace(step, settings={**step.settings, **late})]
        if (before := container.get("lifecycle", {}).get("preCacheCheck")) is not None:
            steps = _with_program_before(steps[0], program, before)
        self._steps += steps
        for platform, config in configs_of(label, fixed, self._platforms.get(label, {})).items():
            self._configs[platform] |= {made_step.name: [config] for made_step in steps}
        return Made(tuple([made_step.name for made_step in steps]), parameters, artifacts)


def _image(where: str, given: str, parameters: Mapping[str, Any]) -> Any:
    """Return the image of a container: a text, or a `Value` if a parameter in it is known only during the run.

    Raises ComponentError if the image contains any other placeholder.
    """
    image = with_inputs(where, given, parameters)
    text = image if isinstance(image, Value) else rendered_value(image)
    if isinstance(text, str) and (left := PLACEHOLDER.search(text)) is not None:
        raise ComponentError(f"{where}: {left[0][:200]} is not a placeholder that is supported here")
    return text


def _last(steps: tuple[str, ...]) -> tuple[str, ...]:
    """Return the steps of a task without the steps for `preCacheCheck`. Dependent tasks wait for the returned steps."""
    return tuple(
        [step for step in steps if not (step.endswith(_PROGRAM_BEFORE) and step.removesuffix(_PROGRAM_BEFORE) in steps)]
    )


def _with_program_before(step: Step, spec: IRContainerSpec, before: Json) -> list[Step]:
    """Return two steps: a step for the program `before` (`preCacheCheck`), and `step` with the program's report.

    The report can change the parameters of `step`, and parameters are part of the cache key. So the program runs as a
    step of its own, before the cache is checked for `step`.
    """
    planned = tuple([key for key in step.outputs if key in spec.artifacts])
    program = msgspec.structs.replace(
        spec,
        command=tuple(before.get("command", ())),
        args=tuple(before.get("args", ())),
        task=f"{step.name}{_PROGRAM_BEFORE}",
        values=(),
        report=_REPORT,
        planned=planned,
    )
    first = msgspec.structs.replace(
        step,
        name=program.task,
        kind=f"{step.kind}{_PROGRAM_BEFORE}",
        executor_spec=program,
        outputs={_REPORT: "JsonValue"},
        properties={},
        cache=False,
    )
    report = Value(OUTPUT, (first.name, _REPORT))
    return [first, msgspec.structs.replace(step, report=report)]
