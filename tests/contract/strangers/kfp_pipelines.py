"""Pipelines of Kubeflow Pipelines: compile them, run each with its own local runner, keep what they put out.

Arguments: the folder, and a file to import. Their components have `kfp` already, and install nothing.
"""

import json
import sys
from pathlib import Path
from typing import Any

from kfp import compiler, dsl, local
from kfp.dsl import Dataset, Input, Metrics, Model, Output

component = dsl.component(install_kfp_package=False)
folder, artifact_uri = Path(sys.argv[1]), sys.argv[2]


@component
def add(a: int, b: int = 2) -> int:
    return a + b


@component
def greet(name: str) -> str:
    return f"hello {name}"


@component
def make(rows: int, data: Output[Dataset], metrics: Output[Metrics]) -> None:
    with open(data.path, "w") as stream:
        stream.write("\n".join(str(row) for row in range(rows)))
    data.metadata["rows"] = rows
    metrics.log_metric("mean", (rows - 1) / 2)


@component
def train(data: Input[Dataset], rate: float, deep: bool, layers: dict, model: Output[Model]) -> None:
    with open(data.path) as source, open(model.path, "w") as stream:
        stream.write(f"{len(source.read().split())} {rate} {deep} {layers['sizes'][1]}")
    model.metadata["loss"] = rate / 2


@component
def look(model: Input[Model]) -> str:
    with open(model.path) as stream:
        return f"{stream.read()}, loss {model.metadata['loss']}"


@component
def count(data: Input[Dataset]) -> int:
    with open(data.path) as stream:
        return len(stream.read().split())


@component
def flip(seed: int) -> str:
    return "heads" if seed % 2 else "tails"


@component
def numbers(n: int) -> list:
    return list(range(n))


@component
def total(values: list) -> int:
    return int(sum(values))  # its own runner makes all numbers floating-point


@component
def fail(message: str) -> None:
    raise RuntimeError(message)


@component
def last(status: dsl.PipelineTaskFinalStatus) -> None:
    print(status.state)


@dsl.pipeline(name="sequential")
def sequential(a: int = 1, name: str = "world $(HOME)") -> str:
    first = add(a=a)
    second = add(a=first.output, b=10)
    return greet(name=f"{name}: {flip(seed=second.output).output}").output


@dsl.pipeline(name="artifacts")
def artifacts(rows: int = 5) -> str:
    made = make(rows=rows)
    model = train(data=made.outputs["data"], rate=0.5, deep=True, layers={"sizes": [3, 4]})
    return look(model=model.outputs["model"]).output


@dsl.pipeline(name="conditional")
def conditional(seed: int = 1) -> str:
    coin = flip(seed=seed)
    with dsl.If(coin.output == "heads"):
        heads = greet(name="heads")
    with dsl.Elif(coin.output == "tails"):
        tails = greet(name="tails")
    with dsl.Else():
        none = greet(name="none")
    return dsl.OneOf(heads.output, tails.output, none.output)


@dsl.pipeline(name="loop")
def loop(n: int = 2) -> int:
    many = numbers(n=n)
    with dsl.ParallelFor(items=many.output, parallelism=1) as item:
        added = add(a=item, b=100)
    return total(values=dsl.Collected(added.output)).output


@dsl.pipeline(name="members")
def members() -> int:
    with dsl.ParallelFor(items=[{"x": 1, "y": 6}, {"x": 2, "y": 7}]) as pair:
        added = add(a=pair.x, b=pair.y)
    return total(values=dsl.Collected(added.output)).output


@dsl.pipeline(name="inner")
def inner(x: int) -> int:
    first = add(a=x, b=1)
    return add(a=first.output, b=first.output).output


@dsl.pipeline(name="nested")
def nested(x: int = 4) -> int:
    doubled = inner(x=x)
    with dsl.If(doubled.output > 5), dsl.ParallelFor([3]) as item:
        deep = inner(x=item)
        with dsl.If(deep.output >= 6):
            greet(name="six")
    return inner(x=doubled.output).output


@dsl.pipeline(name="importer")
def importer(uri: str = artifact_uri) -> int:
    got = dsl.importer(artifact_uri=uri, artifact_class=Dataset, reimport=False, metadata={"rows": 3})
    return count(data=got.output).output


@dsl.pipeline(name="retries")
def retries(a: int = 1) -> int:
    return add(a=a).set_retry(num_retries=2, backoff_duration="1s").set_caching_options(False).output


@dsl.pipeline(name="optional")
def optional(a: int = 1, b: int = 3) -> int:
    first = add(a=a)
    return add(a=first.output, b=b).set_cpu_limit("1").set_memory_limit("512Mi").set_env_variable("A", "b").output


@dsl.pipeline(name="exits")
def exits(message: str = "boom") -> None:
    with dsl.ExitHandler(last()):
        fail(message=message)


ENDING = [sequential, artifacts, conditional, loop, members, nested, importer, retries, optional]
for pipeline in [*ENDING, exits]:
    compiler.Compiler().compile(pipeline, str(folder / f"{pipeline.name}.yaml"))
local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(folder / "theirs"))
outputs: dict[str, Any] = {pipeline.name: pipeline().outputs["Output"] for pipeline in ENDING}
(folder / "found.json").write_text(json.dumps(outputs))
