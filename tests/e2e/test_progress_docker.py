"""Programs in containers report their progress, at their own network's gateway, which no other network reaches."""

import sys
import textwrap
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from hack import strangers
from hack.docker_engine import BUSYBOX_IMAGE, DockerEngine
from tests.e2e.programs_that_report import KERAS, KUBEFLOW, TRANSFORMERS
from tests.support.cli import COMMAND, Cli, CliProcess, replica
from tests.support.docker_engine import traces, with_this_python
from tests.support.eventually import eventually
from tests.support.manifests import job
from tfoperator.api.replicas.progress_names import URL_VARIABLE

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

LIMIT = 120.0

HOLD = textwrap.dedent(
    """
    print("reported", flush=True)
    import os, time
    while not os.path.exists("/held/go"):
        time.sleep(0.05)
    """
)

OURS = textwrap.dedent(
    """
    from tfoperator.progress import Progress
    with Progress(total_steps=10) as progress:
        for step in range(10):
            progress.advance(loss=1 / (step + 1))
    """
)

AS_ANOTHER = textwrap.dedent(
    f"""
    import os, ssl, urllib.error, urllib.request
    context = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
    token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
    url = os.environ["{URL_VARIABLE}"].replace("/namespaces/other/tfjobs/neighbour/", "/namespaces/default/tfjobs/sdk/")
    report = urllib.request.Request(url, b"{{}}", {{"Authorization": "Bearer " + token}})
    try:
        urllib.request.urlopen(report, context=context)
    except urllib.error.HTTPError as error:
        print("as another job:", error.code, flush=True)
    """
)


def reporting(name: str, namespace: str, held: Path, python: Path, program: str) -> dict[str, Any]:
    """A job whose program runs until the test lets it go."""
    worker = replica(str(python), "-c", program + HOLD, image=BUSYBOX_IMAGE)
    pod = worker["template"]["spec"]
    [container] = pod["containers"]
    container["env"] = [{"name": "PYTHONPATH", "value": str(Path(__file__).parents[2])}]
    pod["volumes"] = [{"name": "held", "hostPath": {"path": str(held)}}]
    container["volumeMounts"] = [{"name": "held", "mountPath": "/held"}]
    with_this_python(pod, strangers.find().parents[1])
    made = job(name, {"Worker": worker}, progress={})
    made["metadata"]["namespace"] = namespace
    return made


def final_progress(run_dir: Path, name: str) -> dict[str, Any]:
    status: dict[str, Any] = yaml.safe_load((run_dir / f"{name}.yaml").read_text())["status"]
    assert status["phase"] == "Succeeded"
    return dict(status["progress"])


@pytest.mark.tensorflow
def test_programs_report_from_containers_and_nobody_else_can(docker_engine: DockerEngine, tmp_path: Path) -> None:
    engine = docker.DockerClient(base_url=docker_engine.url)
    eventually(lambda: traces(engine) == [], what="what another test has left is gone")
    (held := tmp_path / "held").mkdir()
    jobs = (
        reporting("sdk", "default", held, strangers.find(), KUBEFLOW),
        reporting("callback", "default", held, strangers.find(), TRANSFORMERS),
        reporting("keras", "default", held, Path(sys.executable), KERAS),
        reporting("ours", "default", held, Path(sys.executable), OURS),
        reporting("neighbour", "other", held, strangers.find(), AS_ANOTHER + KUBEFLOW),
    )
    cli = Cli(tmp_path, DOCKER_HOST=docker_engine.url)
    manifest = cli.write(*map(yaml.safe_dump, jobs))
    # In the engine's network: that is where an engine of a laptop's own has its bridges.
    command = [*docker_engine.enter, *COMMAND, "run", "--runtime", "docker", "--allow-privileged", manifest]
    try:
        with CliProcess([*command, "--logs-dir", "kept"], cli.folder, cli.environment) as process:
            for name in ("sdk", "callback", "keras", "ours", "neighbour"):
                process.until(f"{name}/worker-0] reported", within=LIMIT)
            assert "as another job: 403" in process.output
            sdk, neighbour = (container(engine, name) for name in ("default-sdk", "other-neighbour"))
            gateway, port = gateway_of(engine, sdk), port_of(sdk)
            asked = ["nc", "-w", "10", gateway, port]
            assert sdk.exec_run(["sh", "-c", f"{' '.join(asked)} </dev/null"]).exit_code == 0
            for who, (code, output) in strangers_try(engine, neighbour, asked).items():
                assert (code, "refused" in output) == (1, True), f"{who}: {output}"
            (held / "go").touch()
            assert process.wait(LIMIT) == 0, process.output
        completions = {
            "default.sdk": "42%",
            "default.callback": "100%",
            "default.keras": "100%",
            "default.ours": "100%",
            "other.neighbour": "42%",
        }
        for name, completion in completions.items():
            assert (name, final_progress(tmp_path / "kept", name)["completion"]) == (name, completion)
        assert final_progress(tmp_path / "kept", "default.keras")["totalSteps"] == 16
        assert traces(engine) == []
    finally:
        engine.close()


def container(engine: docker.DockerClient, name: str) -> Any:
    [running] = engine.containers.list(filters={"name": f"{name}-worker-0-.*-tensorflow"})
    return running


def gateway_of(engine: docker.DockerClient, training: Any) -> str:
    """The address of the network whose sandbox the container shares."""
    sandbox = engine.containers.get(training.attrs["HostConfig"]["NetworkMode"].partition(":")[2])
    [network] = sandbox.attrs["NetworkSettings"]["Networks"].values()
    return str(network["Gateway"])


def port_of(training: Any) -> str:
    [url] = [variable for variable in training.attrs["Config"]["Env"] if variable.startswith(f"{URL_VARIABLE}=")]
    return str(url.rpartition(":")[2].partition("/")[0])


def strangers_try(engine: docker.DockerClient, neighbour: Any, asked: list[str]) -> dict[str, tuple[int, str]]:
    """Let containers outside the network of the gateway try it: return exit code and words of `nc`."""
    of_neighbour = neighbour.exec_run(asked)
    other = engine.containers.create(BUSYBOX_IMAGE, asked)
    try:
        other.start()
        of_other = int(other.wait()["StatusCode"]), other.logs().decode()
    finally:
        other.remove(force=True)
    return {
        "a job of another namespace": (of_neighbour.exit_code, of_neighbour.output.decode()),
        "a container of the engine": of_other,
    }
