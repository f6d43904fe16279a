import pytest

from tests.unit.local.apiserver.samples import World, named, refused
from tfoperator.local.apiserver.display.representation import RequestedForm, negotiate
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.resource_types import SECRETS
from tfoperator.local.apiserver.storage.listing import ListRequest, StoredPage, list_page


def page(world: World, **query: str) -> StoredPage:
    return list_page(world.store, SECRETS, "", ListRequest.parse(SECRETS, query))


def test_a_token_expires_with_the_history(world: World) -> None:
    for name in "abc":
        world.create(SECRETS, named(name))
    token = page(world, limit="1").continue_token
    world.create(SECRETS, named("d"))
    world.store.compact()
    with pytest.raises(StatusError) as caught:
        page(world, limit="1", **{"continue": token})
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_a_limit_with_a_version_and_no_match_pins_the_version(world: World) -> None:
    world.create(SECRETS, named("a"))
    before = str(world.store.revision)
    world.create(SECRETS, named("b"))
    assert len(page(world, limit="5", resourceVersion=before).items) == 1
    assert len(page(world, resourceVersion=before).items) == 2
    assert len(page(world, limit="5", resourceVersion="0").items) == 2


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": "many"}, 400),
        ({"timeoutSeconds": "soon"}, 400),
        ({"resourceVersion": "x"}, 400),
        ({"continue": "eyJydiI6MX0="}, 400),
        ({"continue": "eyJydiI6MX0=", "resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersion": "99999999"}, 504),
    ],
)
def test_options_that_make_no_sense_are_refused(world: World, query: dict[str, str], code: int) -> None:
    with refused(code):
        page(world, **query)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        *((accept, "") for accept in ("", "*/*", "application/json", "application/vnd.kubernetes.protobuf")),
        ("text/html, application/json;q=0.9", ""),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Table"),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "PartialObjectMetadataList"),
        ("application/json;as=Poem;g=meta.k8s.io;v=v1, application/json", ""),
        ("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", ""),
    ],
)
def test_the_first_form_that_can_be_served_is_taken(accept: str, form: str) -> None:
    assert negotiate(accept) == RequestedForm(form)
