import os
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import ServedWorld
from tfoperator.local.node.expansion import expand
from tfoperator.sdk import FunctionSourceError
from tfoperator.sdk.functions import FunctionJob, function_script

OUTSIDE = 3


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@decorated
def train(parameters: dict[str, Any]) -> None:
    """Says what it got: $(HOME) $$ 'quoted' "twice"."""
    import os

    def inner() -> str:
        return "two\nlines"

    print(parameters["rate"], os.environ["EXTRA"], "$(EXTRA)", "$$", inner(), train.__doc__)


def run(job: dict[str, Any], folder: Path, **environment: str) -> str:
    """Run the first container's command as a kubelet would."""
    (spec,) = job["spec"]["tfReplicaSpecs"].values()
    (container,) = spec["template"]["spec"]["containers"]
    variables = {entry["name"]: entry["value"] for entry in container.get("env", ())} | environment
    command = [expand(part, variables) for part in (*container["command"], *container["args"])]
    path = folder / "bin"
    path.mkdir()
    (path / "python3").symlink_to(sys.executable)
    done = subprocess.run(
        command,
        env={"PATH": f"{path}:{os.environ['PATH']}", "TMPDIR": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


def test_the_function_runs_elsewhere_as_it_is_written_here(tmp_path: Path) -> None:
    job = FunctionJob("mnist", train, parameters={"rate": 0.5}, env_vars={"EXTRA": "more"}).manifest()
    assert run(job, tmp_path) == ("0.5 more $(EXTRA) $$ two\nlines Says what it got: $(HOME) $$ 'quoted' \"twice\".\n")


def test_an_inner_function_keeps_the_text_inside_it(tmp_path: Path) -> None:
    def train() -> None:
        print("""not
indented""")

    assert run(FunctionJob("mnist", train).manifest(), tmp_path) == "not\nindented\n"


def test_the_job_has_the_replicas_and_resources_that_were_asked_for(world: ServedWorld) -> None:
    job = world.sdk.create_job(
        name="mnist",
        train_func=train,
        base_image="example.invalid/tf:1",
        parameters={"rate": 1},
        num_workers=2,
        num_ps_replicas=1,
        num_chief_replicas=1,
        resources_per_worker={"cpu": 2, "memory": "4Gi", "gpu": 1},
        packages_to_install=["keras", "numpy<3"],
        pip_index_url="https://example.invalid/simple",
        env_vars=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    )
    replicas = {kind: spec.replicas for kind, spec in job.spec.tf_replica_specs.items() if spec}
    assert replicas == {"Chief": 1, "Worker": 2, "PS": 1}
    (container,) = world.job()["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["containers"]
    assert container["image"] == "example.invalid/tf:1"
    assert container["resources"]["limits"] == {"cpu": 2, "memory": "4Gi", "nvidia.com/gpu": 1}
    assert container["env"][0]["name"] == "NODE"
    install = container["command"][2].splitlines()[0]
    assert install.endswith("--index-url https://example.invalid/simple keras 'numpy<3'")


def test_one_worker_is_enough_unless_there_is_a_chief() -> None:
    def train() -> None: ...

    assert FunctionJob("a", train).manifest()["spec"]["progress"] == {}
    assert list(FunctionJob("a", train).manifest()["spec"]["tfReplicaSpecs"]) == ["Worker"]
    assert list(FunctionJob("a", train, num_chief_replicas=1).manifest()["spec"]["tfReplicaSpecs"]) == ["Chief"]


def test_what_the_function_takes_from_outside_is_named() -> None:
    local = 1

    def uses_module() -> int:
        return OUTSIDE

    def uses_closure() -> int:
        return local

    def uses_default(value: int = OUTSIDE) -> int:
        return value

    def uses_deeper() -> list[int]:
        return [OUTSIDE for _ in range(2)]

    for function in (uses_module, uses_closure, uses_default, uses_deeper):
        with pytest.raises(FunctionSourceError, match=rf"{function.__name__}\(\) uses (OUTSIDE|local) from outside"):
            function_script(function)


def test_what_it_defines_itself_is_its_own() -> None:
    def train(values: list[OUTSIDE] = []) -> None:  # noqa: B006 - annotations aren't evaluated
        global COUNTER
        COUNTER = 1
        print(COUNTER, len(values), train, __name__)

    assert function_script(train).endswith("\ntrain()\n")


def made_up() -> Callable[[], None]:
    namespace: dict[str, Any] = {}
    exec("def made_up(): pass", namespace)  # noqa: S102 - a function without a file
    return namespace["made_up"]


async def soon() -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (made_up(), r"source of made_up\(\) is not available"),
        (lambda: None, "<lambda> must be a function that is written with def"),
        (print, "print must be a function that is written with def"),
        (soon, "must be a plain function"),
        *((returned, "without calling it") for returned in (None, 3, {"loss": 0.1})),
    ],
)
def test_what_has_no_source_is_refused_with_the_reason(function: Any, words: str) -> None:
    with pytest.raises(FunctionSourceError, match=words):
        function_script(function)


def test_a_wrapped_function_is_sent_without_its_wrapper() -> None:
    wrapped = wraps(train)(lambda *_: None)
    assert function_script(wrapped, {"rate": 1}) == function_script(train, {"rate": 1})


def test_a_function_needs_a_name_for_its_job_plain_parameters_and_cuda_for_its_gpus(world: ServedWorld) -> None:
    with pytest.raises(ValueError, match="a job from a function needs a name"):
        world.sdk.create_job(train_func=train)
    with pytest.raises(FunctionSourceError, match="must be plain values"):
        function_script(train, {"path": Path("x")})
    with pytest.warns(UserWarning, match="has no CUDA"):
        FunctionJob("a", train, resources_per_worker={"gpu": 1}, parameters={}).manifest()


def of_nothing() -> None: ...


def of_two(first: int, second: int, third: int = 3) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameters", "given"),
    [
        (of_nothing, {}, "one argument, the dictionary"),
        (train, None, "nothing"),
        (of_two, {"first": 1}, "one argument"),
    ],
)
def test_a_function_that_can_not_be_called_so_is_refused(function: Any, parameters: Any, given: str) -> None:
    with pytest.raises(FunctionSourceError, match=rf"{function.__name__}\(\) can't be called with {given}"):
        function_script(function, parameters)
