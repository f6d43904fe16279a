import re
from configparser import ConfigParser

import pytest
from packaging.requirements import Requirement

from hack.lock import CONSTRAINTS, FOLDER, LOCKS, ROOT, Lock, canonical, entries, render, versions, with_versions

HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def whole(lock: Lock) -> list[str]:
    """Return a lock's entries and the entries of the locks that it extends."""
    extended = [base for base in LOCKS if base.name == lock.extends]
    return [*entries(lock.path.read_text()), *(entry for base in extended for entry in whole(base))]


def asked_for(lock: Lock) -> list[Requirement]:
    """Return the requirements of a lock: setup.cfg's with the lock's extras, and `requirements/*.in`."""
    lines: list[str] = []
    for source in lock.sources:
        if source != "setup.cfg":
            lines += entries((ROOT / source).read_text())
            continue
        setup = ConfigParser()
        setup.read(ROOT / source)
        chosen = [
            setup["options"]["install_requires"],
            *(setup["options.extras_require"][extra] for extra in lock.extras),
        ]
        lines += [line for text in chosen for line in text.splitlines() if line]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_what_is_asked_for_in_versions_that_are_allowed(lock: Lock) -> None:
    locked = versions("\n".join(whole(lock)))
    missing = {
        str(requirement)
        for requirement in asked_for(lock)
        if canonical(requirement.name) not in locked or locked[canonical(requirement.name)] not in requirement.specifier
    }
    assert missing == set(), "run: make lock"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_each_entry_of_a_lock_has_hashes(lock: Lock) -> None:
    pinned = entries(lock.path.read_text())
    assert pinned
    assert [entry for entry in pinned if not HASH.search(entry)] == []
    names = [Requirement(entry.partition(" --hash")[0]).name for entry in whole(lock)]
    assert len(names) == len(set(names)), "pip refuses a name that is there twice"


def test_locks_and_constraints_agree() -> None:
    largest = LOCKS[-1]
    assert versions("\n".join(whole(largest))) == versions(CONSTRAINTS.read_text()), "run: make lock"
    for lock in LOCKS:
        assert versions("\n".join(whole(lock))).items() <= versions(CONSTRAINTS.read_text()).items(), "run: make lock"


def test_locks_are_for_every_platform() -> None:
    """With the hashes of wheels that this machine can't use: TensorFlow's of one version are a dozen."""
    by_name = {Requirement(entry.partition(" --hash")[0]).name: entry for entry in whole(LOCKS[-1])}
    assert 'sys_platform != "linux"' in by_name["tensorflow"].replace("'", '"')
    assert len(HASH.findall(by_name["cryptography"])) > 20


def test_nothing_is_in_the_folder_that_is_not_made_or_read() -> None:
    expected = {f"{lock.name}.lock" for lock in LOCKS} | {"build.in", "installer.in", "operator.in", "overrides.txt"}
    assert {path.name for path in FOLDER.iterdir()} == expected


def test_a_lock_says_only_what_those_that_it_extends_do_not_and_constraints_keep_how_they_are_spelt() -> None:
    before = "# ours\nPyYAML==6.0.1\nast_serialize==0.1\ngone==1\n"
    after = with_versions(before, {"pyyaml": "6.0.3", "ast-serialize": "0.1", "new-one": "2"})
    assert after == "ast_serialize==0.1\nnew-one==2\nPyYAML==6.0.3\n"
    resolved = ["a==1 --hash=sha256:aa --hash=sha256:ab", "b==2 ; sys_platform == 'linux' --hash=sha256:bb"]
    text = render(Lock("more", (), extends="less"), resolved, {resolved[0]})
    assert text.splitlines()[1:] == ["-r less.lock", "b==2 ; sys_platform == 'linux' \\", "    --hash=sha256:bb"]
    assert entries(text) == [resolved[1]]
