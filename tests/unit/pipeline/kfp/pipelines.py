"""The pipelines of `*.yaml` here, which `kfp` has compiled from this file: `python pipelines.py`, where it is.

Their components are shell scripts, so they run as processes where neither Docker nor `kfp` is.
"""

from kfp import compiler, dsl
from kfp.dsl import Dataset, Input, Output


def sh(script: str, *args: object) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="busybox:1.36", command=["sh", "-ec", script], args=list(args))


@dsl.container_component
def add(a: int, b: int, total: dsl.OutputPath(int)):
    return sh('echo $(($0 + $1)) >"$2"', a, b, total)


@dsl.container_component
def numbers(n: int, items: dsl.OutputPath(list)):
    return sh('i=0; l=; while [ $i -lt $0 ]; do l="$l$i,"; i=$((i+1)); done; echo "[${l%,}]" >"$1"', n, items)


@dsl.container_component
def say(text: str, said: dsl.OutputPath(str), ending: str = None):  # noqa: RUF013 - as `kfp` has it
    optional = dsl.IfPresentPlaceholder("ending", then=[dsl.ConcatPlaceholder(["-", ending])], else_=["."])
    return sh('printf %s "$0$2" >"$1"', text, said, optional)


@dsl.container_component
def count(data: Input[Dataset], rows: dsl.OutputPath(int)):
    return sh('wc -l <"$0" >"$1"; test "$2" = red', data.path, rows, data.metadata["hue"])


@dsl.container_component
def paint(rows: int, hue: str, data: Output[Dataset]):
    script = (
        'i=0; : >"$1"; while [ $i -lt $0 ]; do echo $i >>"$1"; i=$((i+1)); done;'
        'printf \'{"artifacts": {"data": {"artifacts": [{"metadata": {"hue": "%s"}}]}}}\' "$2" >"$3"; printf %s "$4"'
    )
    return sh(script, rows, data.path, hue, "{{$.outputs.output_file}}", "{{$}}")


@dsl.container_component
def fail(message: str):
    return sh('echo "$0" >&2; exit 3', message)


@dsl.container_component
def last(status: dsl.PipelineTaskFinalStatus):
    return sh('echo "$0"', "{{$.inputs.parameters['status']}}")


@dsl.container_component
def hand_on(text: str, handed: dsl.OutputPath(str)):
    return sh('printf %s "$0" >"$1"', text, handed)


@dsl.container_component
def fail_before(text: dsl.OutputPath(str), data: Output[Dataset]):
    return sh('echo "$0 $1" >&2; exit 3', text, data.path)


@dsl.container_component
def greet(text: str = "nothing came", data: Input[Dataset] = None):
    given = dsl.IfPresentPlaceholder("data", then=["with data"], else_=["without data"])
    return sh('echo "$0, $1"', text, given)


@dsl.container_component
def show(what: dict, items: list, text: str):
    return sh('echo "$0"; echo "$1"; echo "$2"', what, items, text)


@dsl.container_component
def look(data: Input[Dataset]):
    return sh('printf "%s %s\\n" "$(wc -l <"$0")" "$1"', data.path, data.metadata)


@dsl.container_component
def look_at_all(data: Input[list[Dataset]]):
    return sh('echo "$0"', data)


@dsl.container_component
def keep(folder: str):
    return sh('echo kept >"$0/note"', folder)


@dsl.container_component
def read(folder: str):
    return sh('cat "$0/note"', folder)


@dsl.pipeline(name="twice")
def twice(x: int) -> int:
    return add(a=add(a=x, b=x).output, b=0).output


@dsl.pipeline(name="shapes")
def shapes(n: int = 3, words: str = "{{$.inputs.parameters['n']}} $(HOME) `id`", known: str = "/nowhere"):
    many = numbers(n=n)
    with dsl.ParallelFor(many.output, parallelism=2) as item:
        doubled = twice(x=item)
        with dsl.If(doubled.output > 2):
            say(text=f"it becomes {doubled.output}").set_caching_options(False)
    with dsl.ParallelFor([{"a": 1, "b": 20}, {"a": 3, "b": 40}]) as pair:
        add(a=pair.a, b=pair.b)
    painted = paint(rows=n, hue="red").set_env_variable("HUE", "$(x)").set_cpu_limit("500m").set_memory_limit("1G")
    counted = count(data=painted.output).set_retry(num_retries=1, backoff_duration="0s")
    count(data=dsl.importer(artifact_uri=known, artifact_class=Dataset, metadata={"hue": "red"}).output)
    with dsl.If(counted.output == 3, name="three"):
        yes = say(text=words, ending="yes")
    with dsl.Elif(counted.output != 4):
        no = say(text="no")
    with dsl.Else():
        four = say(text="four")
    say(text=dsl.OneOf(yes.output, no.output, four.output)).set_display_name("chosen")


@dsl.pipeline(name="exits", pipeline_root="/exits-root")
def exits(message: str):
    with dsl.ExitHandler(last(), name="guarded"):
        fail(message=message)


@dsl.pipeline(name="ignores")
def ignores():
    failed = fail_before()
    greet(text=failed.outputs["text"], data=failed.outputs["data"]).ignore_upstream_failure()


@dsl.pipeline(name="ends")
def ends():
    with dsl.ExitHandler(last(), name="guarded"):
        greet()


@dsl.pipeline(name="paints")
def paints() -> list[Dataset]:
    with dsl.ParallelFor([1, 2]) as rows:
        painted = paint(rows=rows, hue="red")
    return dsl.Collected(painted.outputs["data"])


@dsl.pipeline(name="rich", pipeline_config=dsl.PipelineConfig(workspace=dsl.WorkspaceConfig(size="1Gi")))
def rich(known: Input[Dataset], cpus: str = "500m", hue: str = "green"):
    """Everything that a file may have beside steps."""
    asked = hand_on(text="2G")
    memory = say(text="ignored").set_cpu_limit(cpus).set_memory_limit(asked.output)
    show(
        what={"hue": hue, "asked": [1, asked.output]},
        items=[hue, {"run": dsl.PIPELINE_JOB_ID_PLACEHOLDER}, 2.5],
        text=" ".join(
            [dsl.PIPELINE_TASK_NAME_PLACEHOLDER, dsl.PIPELINE_JOB_NAME_PLACEHOLDER, dsl.PIPELINE_ROOT_PLACEHOLDER]
        ),
    ).after(memory)
    many = paints()
    with dsl.ParallelFor(many.output) as item:
        look(data=item)
    look_at_all(data=many.output)
    look(data=known)
    uri = "{{$.pipeline_root}}/of-nobody"
    look(data=dsl.importer(artifact_uri=uri, artifact_class=Dataset, metadata={"hue": hue, asked.output: 1}).output)
    read(folder=dsl.WORKSPACE_PATH_PLACEHOLDER).after(keep(folder=dsl.WORKSPACE_PATH_PLACEHOLDER))


if __name__ == "__main__":
    for pipeline in (shapes, exits, ignores, ends, rich):
        compiler.Compiler().compile(pipeline, f"{pipeline.name}.yaml")
