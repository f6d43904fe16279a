"""docs/reference/rights.md and the pages beside it give a reason for each right in the manifests, and for no other."""

import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart import roles
from tfoperator.api.migration.reading import read_cluster
from tfoperator.api.replicas.names import LABEL_OPERATOR_NAME, OPERATOR_NAME
from tfoperator.kube.protocol.errors import NotFoundError, Status
from tfoperator.kube.protocol.options import ListOptions
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ListPage

ROOT = Path(__file__).resolve().parents[3]
PAGES = (
    "operate/security.md",
    "reference/rights.md",
    "reference/rights-of-components.md",
    "reference/rights-of-queues-and-gangs.md",
)
PAGE = "".join((ROOT / "docs" / name).read_text() for name in PAGES)

SECTIONS = {
    "The operator": ["operator"],
    "Leader election": ["leader-election"],
    "Log archive": ["log-archive"],
    "Secure metrics": ["metrics-auth"],
    "Hang detection": ["hang-detection"],
    "Stacks of stalled jobs": ["stall-stacks"],
    "Webhook": ["webhook-secret", "webhook-crd"],
    "Progress": ["progress-secret", "progress-keys"],
    "Volcano": ["volcano"],
    "scheduler-plugins": ["scheduler-plugins"],
    "Kubernetes' own": ["kubernetes-gangs"],
    "Volcano or scheduler-plugins": ["priority-classes"],
    "Kueue": ["kueue", "kueue-classes"],
}
"""Of each table's heading, the roles by the names that the Helm chart has for them."""

Rights = set[tuple[str, str, str]]
"""Resource with its group, verb, and the one name that it is for, if it is for one only."""


def documented(section: str) -> dict[tuple[str, str, str], str]:
    """Return the reason for each right of a section's table: a line may have several resources and several names."""
    text = re.split(r"\n##? ", PAGE.partition(f"\n## {section}: ")[2])[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    header, _, *rows = lines
    reasons = {}
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        names = re.findall(r"`([^`]+)`", cells.get("only the object", "")) or [""]
        for resource, only in product(re.findall(r"`([^`]+)`", cells["resource"]), names):
            right = (resource, cells["verb"], only)
            assert right not in reasons, right
            reasons[right] = cells["reason"]
    return reasons


def granted(rules: Iterable[dict[str, Any]]) -> Rights:
    rights: Rights = set()
    for rule in rules:
        rights |= {(path, verb, "") for path in rule.get("nonResourceURLs", []) for verb in rule["verbs"]}
        for group in rule.get("apiGroups", []):
            for resource in rule["resources"]:
                plain, slash, subresource = resource.partition("/")
                name = f"{plain}.{group}{slash}{subresource}" if group else resource
                rights |= {(name, verb, only) for verb in rule["verbs"] for only in rule.get("resourceNames", [""])}
    return rights


@pytest.mark.parametrize("section", SECTIONS)
def test_each_right_has_its_reason_and_no_other_is_told_of(section: str) -> None:
    reasons = documented(section)
    given = granted(rule for name in SECTIONS[section] for rule in roles()[name])
    assert set(reasons) == given
    assert all(len(reason) > 5 for reason in reasons.values())


def test_no_role_of_the_operator_is_left_out() -> None:
    mine = {name for names in SECTIONS.values() for name in names}
    assert set(roles()) - mine == {"user-edit", "user-view", "metrics-reader"}


class Asked:
    """An API server that has no objects, and records the rights that requests need."""

    def __init__(self) -> None:
        self.rights: Rights = set()

    def list(self, resource: Resource, _namespace: str, _decode: Any, _options: ListOptions, **_: Any) -> ListPage[Any]:
        self._note(resource, "list", "")
        return ListPage((), "1")

    def get(self, resource: Resource, _namespace: str, name: str, *_: Any) -> Any:
        self._note(resource, "get", name)
        raise NotFoundError(Status(code=404, message="it is not there"))

    def _note(self, resource: Resource, verb: str, only: str) -> None:
        self.rights.add((f"{resource.plural}.{resource.group}".rstrip("."), verb, only))


def test_what_migrate_may_read_is_what_it_asks_for() -> None:
    asked = Asked()
    assert read_cluster(asked, "").unread == ()  # type: ignore[arg-type]
    reasons = documented("Migration")
    assert set(reasons) == asked.rights
    assert all(len(reason) > 5 for reason in reasons.values())


def test_the_network_policy_for_replicas_picks_the_pods_that_the_operator_makes() -> None:
    policy = yaml.safe_load(PAGE.partition("```yaml\n")[2].partition("```")[0])
    labels = {LABEL_OPERATOR_NAME: OPERATOR_NAME}
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    (rule,) = policy["spec"]["ingress"]
    assert [peer["podSelector"]["matchLabels"] for peer in rule["from"]] == [labels]


def test_whoever_reports_a_vulnerability_reads_a_page_and_not_a_book() -> None:
    lines = (ROOT / "SECURITY.md").read_text().splitlines()
    assert len(lines) <= 65
    assert "docs/security.md" in "".join(lines)
