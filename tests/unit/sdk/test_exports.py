"""The names of `tfoperator.sdk` are imported when they are used: its lists have to agree."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import tfoperator.sdk


def seen_by_type_checkers() -> dict[str, list[str]]:
    """The imports that type checkers read, by module."""
    tree = ast.parse(Path(tfoperator.sdk.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    return {str(node.module): [name.name for name in node.names] for node in imports}


def test_the_names_are_those_that_type_checkers_see() -> None:
    places = {module: list(names) for module, names in tfoperator.sdk._PLACES.items()}
    assert places == seen_by_type_checkers()
    assert sorted(tfoperator.sdk.__all__) == sorted(name for names in places.values() for name in names)
    assert {*tfoperator.sdk.__all__} <= {*dir(tfoperator.sdk)}


@pytest.mark.parametrize("name", tfoperator.sdk.__all__)
def test_each_name_is_the_object_of_its_module(name: str) -> None:
    module = next(module for module, names in tfoperator.sdk._PLACES.items() if name in names)
    assert getattr(tfoperator.sdk, name) is getattr(import_module(module), name)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match=r"'tfoperator\.sdk' has no attribute 'TFJobClientt'"):
        _ = tfoperator.sdk.TFJobClientt
