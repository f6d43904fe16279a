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
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher import ComponentError, ExecutorSpec, PlatformConfig
from tfoperator.launcher.component_file import parameter_values
from tfoperator.launcher.core.component import Json
from tfoperator.object_store import is_object_url
from tfoperator.pipeline.dsl.standard_artifacts import VALUES
from tfoperator.pipeline.graph import Graph, Loop, Source, Step, made_graph
from tfoperator.pipeline.kfp.claims import IMAGES, ClaimSpec
from tfoperator.pipeline.kfp.container import IRContainerSpec, configs_of, retry_of
from tfoperator.pipeline.kfp.jobs import OLD_SCHEMA, pipeline_and_settings
from tfoperator.pipeline.kfp.options import FORM, options_of, producers
from tfoperator.pipeline.kfp.parts import (
    Made,
    Named,
    as_value,
    chosen_output,
    definitions_of,
    final_status,
    fits,
    given_artifact,
    imported,
    in_turn,
    kind_of,
    member,
    output_of,
    read_condition,
    type_of,
    typed,
    with_inputs,
)
from tfoperator.pipeline.kfp.resolvers import resolved
from tfoperator.pipeline.kfp.settings import RESOURCES, check_settings
from tfoperator.pipeline.kfp.spec import PLATFORMS, check
from tfoperator.pipeline.values import COLLECT, ITEM, OUTPUT, Value

_MAX_DEPTH = 30
_MAX_TASKS = 2000
_MEMBER = re.compile(r'parseJson\(string_value\)((?:\["[^"\]]+"\])+)')
_OPTIONS = "platforms.kubernetes.deploymentSpec.executors"
_STRATEGIES = {"ALL_UPSTREAM_TASKS_SUCCEEDED": False, "ALL_UPSTREAM_TASKS_COMPLETED": True}
"""For each `triggerPolicy.strategy`: whether the task runs even if a task before it has failed."""
_PROGRAM_BEFORE, _REPORT = ".pre-cache-check", "executor_output"
"""The program of `preCacheCheck` becomes a step that runs before the task's own step. These are the end of its step's
name (`train.pre-cache-check`), and the name of its step's output.
"""

Configs = dict[str, dict[str, list[PlatformConfig]]]
"""Platform configs. The first key is the platform, such as `docker`. The second key is the step."""


def read_ir(path: str, given: Mapping[str, str]) -> tuple[Graph, Json, Configs]:
    """Return the pipeline of a file, the values of its parameters, and its platform configs by platform and step.

    `given` has the parameters of the user as text (`--param NAME=TEXT`). Raises OSError. Raises ComponentError with a
    message that names the place in the file, such as `root.dag`.
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
            raise ComponentError(
                f"defaultPipelineRoot {shown_url(place)}: must be a directory, or a URL that begins with s3://, "
                "gs:// or az://"
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
        """Read the tasks of a DAG.

        `scope` is a Step only in form: it has the DAG's name, its inputs and parameters, and the conditions and loops
        around it.
        """
        if scope.name.count(".") >= _MAX_DEPTH:
            raise ComponentError(f"{scope.name[:200]}: has more than {_MAX_DEPTH} levels of nested DAGs")
        made: dict[str, Made] = {}
        tasks = {name: self._after_options(task) for name, task in component["dag"].get("tasks", {}).items()}
        for name in in_turn(scope.name, tasks):
            made[name] = self._task(name, tasks[name], scope, made)
        return made

    def _after_options(self, task: Json) -> Json:
        """Return the task with the tasks whose outputs its Kubernetes options use, added to `dependentTasks`."""
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
        always = member(f"{where}.triggerPolicy", _STRATEGIES, strategy, "strategy ")
        behind = [step for other in task.get("dependentTasks", ()) for step in _last(made[other].steps)]
        all_parameters = self._parameters(where, name, task, component, scope, made)
        parameters = {key: all_parameters[key] for key in definitions_of(component, "input", "parameters")}
        inputs = self._artifacts(where, task, component, scope, made)
        loops = self._looped(where, task, scope, parameters, inputs)
        condition = trigger.get("condition")
        named = Named(partial(member, where, parameters), partial(_conditional_artifact, where, task, inputs))
        when = (*scope.when, read_condition(condition, named)) if condition else scope.when
        inner = msgspec.structs.replace(
            scope,
            name=where,
            inputs=inputs,
            exec_properties=parameters,
            when=when,
            loops=loops,
            behind=(*scope.behind, *behind),
            always=always or scope.always,
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
                place, self._options.get(label, {}), lambda given: self._parameter(place, given, scope, made)
            )
            result = self._executed(
                task, component, msgspec.structs.replace(inner, settings=options), {**all_parameters, **parameters}
            )
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
        return Made(result.steps, parameters, artifacts)

    def _looped(
        self, where: str, task: Json, scope: Step, parameters: dict[str, Any], inputs: dict[str, Source]
    ) -> tuple[Loop, ...]:
        """Return the loops that contain a task, the outermost first.

        If the task has an iterator, its own loop is the last. The call then adds the loop's item to `parameters` or
        `inputs`.
        """
        limit = task.get("iteratorPolicy", {}).get("parallelismLimit", 0)
        if (iterator := task.get("parameterIterator")) is not None:
            items = iterator.get("items", {})
            try:
                plain = msgspec.json.decode(items.get("raw") or "null")
            except UNDECODABLE as error:
                raise ComponentError(f"{where}.parameterIterator.items.raw: {error}") from None
            if plain is None and (plain := parameters.get(items.get("inputParameter", ""))) is None:
                raise ComponentError(f"{where}.parameterIterator.items: must have a value")
            parameters[iterator.get("itemInput", "")] = Value(ITEM, (where,))
        elif (iterator := task.get("artifactIterator")) is not None:
            place = f"{where}.artifactIterator.items"
            listed = as_value(place, member(place, inputs, iterator.get("items", {}).get("inputArtifact", "")))
            plain = Value("positions", (Value("artifacts", (listed,)),))
            inputs[iterator.get("itemInput", "")] = Value("at", (listed, Value(ITEM, (where,))))
        else:
            return scope.loops
        return (*scope.loops, Loop(where, plain, limit))

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
        program = IRContainerSpec(
            container.get("image", ""),
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
                    f"{where}: {key!r} can't be the name of an input or output, because files get this name"
                )
        step = msgspec.structs.replace(
            scope,
            kind=label.removeprefix("exec-").removesuffix("_executor") or where,
            executor_spec=spec,
            outputs=outputs,
            properties={
                key: definition["metadata"] for key, definition in sides[1].items() if definition.get("metadata")
            },
            exec_properties={key: value for key, value in scope.exec_properties.items() if value is not None},
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
        late = {RESOURCES: resources} if isinstance(resources, Value) else {}
        check_settings(where, step.settings)
        fixed = {**container, "resources": {} if late else resources}
        steps = [msgspec.structs.replace(step, settings={**step.settings, **late})]
        if (before := container.get("lifecycle", {}).get("preCacheCheck")) is not None:
            steps = _with_program_before(steps[0], program, before)
        self._steps += steps
        for platform, config in configs_of(label, fixed, self._platforms.get(label, {})).items():
            self._configs[platform] |= {made_step.name: [config] for made_step in steps}
        return Made(tuple([made_step.name for made_step in steps]), parameters, artifacts)

    def _parameters(
        self, where: str, name: str, task: Json, component: Json, scope: Step, made: Mapping[str, Made]
    ) -> dict[str, Any]:
        """Return the parameters of a task by name.

        Parameters that the component does not define are included: placeholders in constants of the task can name them.
        """
        definitions = definitions_of(component, "input", "parameters")
        given = task.get("inputs", {}).get("parameters", {})
        item = task.get("parameterIterator", {}).get("itemInput")
        parameters = {key: self._parameter(f"{where}: {key}", source, scope, made) for key, source in given.items()}
        for key, definition in definitions.items():
            default, value, optional = (
                typed(definition, definition.get("defaultValue")),
                parameters.get(key),
                definition.get("isOptional"),
            )
            if isinstance(value, Value) and (default is not None or optional):
                value = Value("first", (value, default))
            parameters[key] = typed(definition, default if value is None else value)
            if "taskFinalStatus" in given.get(key, {}) and definition.get("parameterType") == "STRING":
                parameters[key] = Value("text", (parameters[key],))
            if parameters[key] is None and not optional and key != item:
                raise ComponentError(f"{where}: its parameter {key!r} is missing")
        for key, source in given.items():
            if "runtimeValue" in source:
                parameters[key] = with_inputs(f"{where}: {key}", parameters[key], parameters, name)
        return parameters

    def _parameter(self, where: str, given: Json, scope: Step, made: Mapping[str, Made]) -> Any:
        if (source := given.get("taskOutputParameter")) is not None:
            value = output_of(where, source, made, "parameters")
        elif (source := given.get("taskFinalStatus")) is not None:
            value = final_status(source["producerTask"], made[source["producerTask"]].steps)
        elif (name := given.get("componentInputParameter")) is not None:
            value = member(where, scope.exec_properties, name)
        else:
            value = given.get("runtimeValue", {}).get("constant")
        selector = given.get("parameterExpressionSelector")
        if selector is None:
            return value
        if (match := _MEMBER.fullmatch(selector)) is None:
            raise ComponentError(f"{where}.parameterExpressionSelector: {selector[:100]!r} is not supported here")
        for key in re.findall(r'\["([^"\]]+)"\]', match[1]):
            value = Value("get", (value, key))
        return value

    def _artifacts(
        self, where: str, task: Json, component: Json, scope: Step, made: Mapping[str, Made]
    ) -> dict[str, Source]:
        artifacts: dict[str, Source] = {}
        definitions = definitions_of(component, "input", "artifacts")
        for key, given in task.get("inputs", {}).get("artifacts", {}).items():
            if (source := given.get("taskOutputArtifact")) is not None:
                artifacts[key] = output_of(where, source, made, "artifacts")
            elif (inherited := scope.inputs.get(given.get("componentInputArtifact", ""))) is not None:
                artifacts[key] = inherited
            if definitions.get(key, {}).get("isOptional") and isinstance(artifacts.get(key), Value):
                # The input is empty if the task that makes the artifact was skipped or has failed.
                artifacts[key] = Value("first", (artifacts[key], None))
        return artifacts


def _conditional_artifact(where: str, task: Json, inputs: Mapping[str, Source], name: str) -> Value:
    """Return the source of the artifact `name` in a condition of a task.

    `name` is an input of the task, or has the form `_PRODUCER.OUTPUT`, with the names of a task and its output.
    """
    for key, given in task.get("inputs", {}).get("artifacts", {}).items():
        source = given.get("taskOutputArtifact", {})
        if name == f"_{source.get('producerTask')}.{source.get('outputArtifactKey')}" and name not in inputs:
            name = key
    value: Value = as_value(where, member(where, inputs, name))
    return value


def _last(steps: tuple[str, ...]) -> list[str]:
    """Return the steps of a task without the steps for `preCacheCheck`. Dependent tasks wait for the returned steps."""
    return [
        step for step in steps if not (step.endswith(_PROGRAM_BEFORE) and step.removesuffix(_PROGRAM_BEFORE) in steps)
    ]


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
