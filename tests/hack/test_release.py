import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import tfoperator
from hack import release
from hack.lock import FOLDER, LOCKS, ROOT, canonical, versions

UV = str(Path(sys.executable).with_name("uv"))
EPOCH = 1_700_000_000


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    release.release(folder)
    return folder


def named(dist: Path, suffix: str) -> Path:
    return dist / f"tfoperator-{tfoperator.__version__}{suffix}"


def test_a_release_has_all_its_parts_and_their_checksums(dist: Path) -> None:
    parts = {path.name for path in dist.iterdir()}
    suffixes = (
        ".tar.gz", "-py3-none-any.whl", ".tgz", ".notes.md", ".operator.cdx.json", ".run.cdx.json", ".provenance.json",
    )  # fmt: skip
    assert parts == {named(dist, suffix).name for suffix in suffixes} | {"SHA256SUMS"}
    done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, capture_output=True)
    assert done.returncode == 0, done.stdout
    assert len((dist / "SHA256SUMS").read_text().splitlines()) == len(suffixes)


def test_the_wheel_holds_the_package_and_the_source_all_that_builds_it(dist: Path) -> None:
    with zipfile.ZipFile(named(dist, "-py3-none-any.whl")) as wheel:
        names = set(wheel.namelist())
        scripts = wheel.read(next(name for name in names if name.endswith("/entry_points.txt"))).decode()
    assert {"tfoperator", "kubectl-tfjob"} <= {line.partition(" = ")[0] for line in scripts.splitlines()}
    expected = subprocess.run(
        ["git", "ls-files", "tfoperator/*.py", "tfoperator/*.yaml", "tfoperator/*.html", "tfoperator/py.typed"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert set(expected) <= names
    pages = {f"tfoperator/cli/commands/agents/pages/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages <= names, "the pages of the documentation, which `tfoperator mcp` serves, are a link to docs/"
    assert not [name for name in names if name.startswith(("tests/", "hack/"))]
    with tarfile.open(named(dist, ".tar.gz")) as source:
        paths = {member.name.partition("/")[2] for member in source}
        assert {member.uid for member in source} == {0}
        assert len({member.mtime for member in source}) == 1
    assert {"setup.cfg", "pyproject.toml", "LICENSE", "README.md", *expected} <= paths


def requirement(dist: Path) -> str:
    return f"tfoperator[docker,pipeline,postgres,objects,gpu,mlflow,mcp] @ file://{named(dist, '-py3-none-any.whl')}"


@pytest.fixture(scope="module")
def stranger(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel and what its extras need."""
    folder = tmp_path_factory.mktemp("stranger") / "venv"
    subprocess.run([UV, "venv", "--quiet", "--no-project", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([UV, "pip", "install", "--quiet", "--python", str(python), requirement(dist)], check=True)
    return python


def test_the_wheel_works_where_nothing_else_is(stranger: Path, tmp_path: Path) -> None:
    modules = "tfoperator.sdk, tfoperator.pipeline, tfoperator.launcher, tfoperator.progress, tfoperator.operator"
    for command in ([stranger, "-c", f"import {modules}"], [stranger.parent / "tfoperator", "--help"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    manifest = ROOT / "examples" / "digits" / "tfjob.yaml"
    process = subprocess.run([stranger.parent / "tfoperator", "validate", manifest], cwd=tmp_path, capture_output=True)
    assert process.returncode == 0, process.stderr


def test_the_strict_mypy_of_a_stranger_accepts_each_example(stranger: Path, tmp_path: Path) -> None:
    # TensorFlow and Keras have no types, so their classes and decorators have none.
    untyped = ["--ignore-missing-imports", "--allow-subclassing-any", "--allow-untyped-decorators"]
    examples = subprocess.run(
        ["git", "ls-files", "examples/*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for path in examples.stdout.split():
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--config-file=", "--strict", *untyped, "--python-executable", stranger,
             "--cache-dir", tmp_path / "cache", ROOT / path],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_what_it_needs_can_be_installed_with_each_python(dist: Path, version: str, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.in"
    wanted.write_text(requirement(dist))
    subprocess.run(
        [UV, "pip", "compile", "--quiet", "--python-version", version, "--only-binary", ":all:", str(wanted)],
        check=True, capture_output=True,
    )  # fmt: skip


def test_the_chart_package_holds_the_chart_of_the_version(dist: Path) -> None:
    with tarfile.open(named(dist, ".tgz")) as package:
        names = {member.name for member in package}
        file = package.extractfile("tfoperator/Chart.yaml")
        assert file is not None
        chart = yaml.safe_load(file.read())
    listed = subprocess.run(
        ["git", "ls-files", "manifests/helm/tfoperator"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert names == {path.removeprefix("manifests/helm/") for path in listed}
    assert chart["version"] == chart["appVersion"] == tfoperator.__version__
    assert named(dist, ".notes.md").read_text().startswith(f"# tfoperator {tfoperator.__version__}\n")


@pytest.mark.parametrize("name", ["operator", "run"])
def test_the_bill_of_materials_is_valid_and_lists_the_lock(dist: Path, name: str) -> None:
    text = named(dist, f".{name}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    main = bill["metadata"]["component"]
    assert (main["name"], main["version"]) == ("tfoperator", tfoperator.__version__)
    listed = {canonical(component["name"]): component["version"] for component in bill["components"]}
    locked = versions((FOLDER / "operator.lock").read_text())
    if name == "run":
        locked |= versions((FOLDER / "run.lock").read_text())
    assert listed == locked
    assert all(component["externalReferences"][0]["hashes"] for component in bill["components"])


def test_the_provenance_names_what_was_made_and_of_what(dist: Path) -> None:
    statement = json.loads(named(dist, ".provenance.json").read_text())
    assert (statement["_type"], statement["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert set(statement["predicate"]) == {"buildDefinition", "runDetails"}
    definition = statement["predicate"]["buildDefinition"]
    assert ":" in definition["buildType"]
    assert definition["externalParameters"]
    assert statement["predicate"]["runDetails"]["builder"]["id"]
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    made = [path for path in dist.iterdir() if path.name not in ("SHA256SUMS", named(dist, ".provenance.json").name)]
    assert subjects == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    source, *locks = definition["resolvedDependencies"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert source["digest"] == {"gitCommit": head}
    assert all(lock_file["digest"]["sha256"] for lock_file in locks)
    assert {lock_file["name"] for lock_file in locks} == {f"requirements/{lock.path.name}" for lock in LOCKS}


def test_a_bill_of_materials_is_the_same_each_time_and_what_a_tool_says_is_in_the_error(tmp_path: Path) -> None:
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for path in paths:
        release.bill_of_materials(LOCKS[0], path, EPOCH)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert json.loads(paths[0].read_text())["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")
    with pytest.raises(release.ReleaseError, match=r"(?s)cyclonedx_py failed.*not/there"):
        release.bill_of_materials(LOCKS[0], tmp_path / "not/there", EPOCH)


def archive(*, mtime: int, owner: str, order: int) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=mtime) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for name in ["p/b.py", "p/a.sh"][::order]:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.mode = 3, mtime, owner, 0o755 if "sh" in name else 0o664
            tar.addfile(member, io.BytesIO(b"abc"))
    return buffer.getvalue()


def test_a_source_archive_says_neither_when_nor_by_whom_it_was_made() -> None:
    stripped = release.without_times(archive(mtime=1, owner="me", order=1), EPOCH)
    other = release.without_times(archive(mtime=2, owner="you", order=-1), EPOCH)
    assert stripped == other
    with tarfile.open(fileobj=io.BytesIO(stripped)) as read:
        members = {member.name: (member.mode, member.mtime) for member in read}
        file = read.extractfile("p/b.py")
        assert file is not None
        assert file.read() == b"abc"
    assert members == {"p/a.sh": (0o755, EPOCH), "p/b.py": (0o644, EPOCH)}
