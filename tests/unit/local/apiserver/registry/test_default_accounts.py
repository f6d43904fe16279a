from collections.abc import Callable

import pytest

from tests.unit.local.apiserver.samples import World
from tfoperator.local.apiserver.registry.default_accounts import DefaultAccounts
from tfoperator.local.apiserver.registry.deletion import DeleteOptions
from tfoperator.local.apiserver.registry.registry import WriteOptions
from tfoperator.local.apiserver.resource_types import NAMESPACES, SERVICE_ACCOUNTS


class Accounts:
    def __init__(self) -> None:
        self.world = World()
        self._due: list[Callable[[], None]] = []
        DefaultAccounts(self.world.store, self.world.registry, self._due.append)

    def settle(self) -> None:
        while self._due:
            self._due.pop(0)()

    def make_namespace(self, name: str) -> None:
        self.world.registry.create(NAMESPACES, "", {"metadata": {"name": name}}, WriteOptions())

    def delete(self) -> None:
        self.world.registry.delete(SERVICE_ACCOUNTS, "new", "default", DeleteOptions())

    @property
    def keys(self) -> list[str]:
        return [stored.key for stored in self.world.store.objects(SERVICE_ACCOUNTS)]


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


def test_a_new_namespace_gets_the_account_after_the_write(accounts: Accounts) -> None:
    accounts.make_namespace("new")
    assert accounts.keys == []
    accounts.settle()
    assert accounts.keys == ["new/default"]


def test_an_account_that_somebody_deletes_is_created_again(accounts: Accounts) -> None:
    accounts.make_namespace("new")
    accounts.settle()
    accounts.delete()
    assert accounts.keys == []
    accounts.settle()
    assert accounts.keys == ["new/default"]


def test_a_namespace_that_is_deleted_gets_no_account(accounts: Accounts) -> None:
    accounts.make_namespace("new")
    accounts.settle()
    accounts.world.registry.delete(NAMESPACES, "", "new", DeleteOptions())
    accounts.delete()
    accounts.settle()
    assert accounts.keys == []


def test_an_account_that_exists_already_is_kept(accounts: Accounts) -> None:
    accounts.make_namespace("new")
    accounts.world.registry.create(
        SERVICE_ACCOUNTS, "new", {"metadata": {"name": "default", "labels": {"a": "b"}}}, WriteOptions()
    )
    accounts.settle()
    (stored,) = accounts.world.store.objects(SERVICE_ACCOUNTS)
    assert stored.metadata["labels"] == {"a": "b"}
