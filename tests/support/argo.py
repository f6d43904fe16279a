"""Argo Workflows' own answers: the result of its validation of a manifest, and the commands that its controller runs.

The program is hack/gomod/argo, over Argo's Go packages; `make controlplane` builds it.
"""

import subprocess

import msgspec

from hack import gobuild


class Task(msgspec.Struct):
    """A pod that Argo would make. `repeated` has for its exit codes whether it is tried again."""

    name: str
    command: list[str]
    args: list[str]
    repeated: dict[str, bool]
    dependencies: list[str] | None = None


class Answer(msgspec.Struct):
    """Argo's answer to a manifest; `error` is why it refuses it."""

    error: str = ""
    tasks: list[Task] = []
    exit: Task | None = None


def argo(manifest: str, *parameters: str, uid: str = "0f0e0d0c-0000-4000-8000-000000000001") -> Answer:
    """Argo's answer, with parameters as `argo submit -p` takes them."""
    given = [word for parameter in parameters for word in ("-p", parameter)]
    done = subprocess.run(
        [gobuild.find("argo"), "-uid", uid, *given],
        input=manifest.encode(),
        capture_output=True,
        timeout=120,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Answer)


def in_order(tasks: list[Task]) -> list[Task]:
    """The tasks as a DAG begins them, one after the other."""
    done: list[Task] = []
    while len(done) < len(tasks):
        names = {task.name for task in done}
        done.append(next(task for task in tasks if task.name not in names and set(task.dependencies or ()) <= names))
    return done
