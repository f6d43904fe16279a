"""The rules for objects: types, names, metadata, defaults, validation, and custom resources with their schema.

A `Strategy` contains the differences between kinds, in the terms of kube-apiserver's registry strategies. Pure, except
for random names and addresses.
"""

from tfoperator.local.apiserver.objects.custom_resources import CustomResource, custom_resource
from tfoperator.local.apiserver.objects.field_managers import Owned, Owner, after_update, apply, managed_fields
from tfoperator.local.apiserver.objects.field_sets import Layout, builtin_layout
from tfoperator.local.apiserver.objects.json_types import check_types
from tfoperator.local.apiserver.objects.metadata import (
    carry_over,
    check_identity,
    generated_name,
    validate_metadata,
    validate_metadata_update,
)
from tfoperator.local.apiserver.objects.strategies import Strategy, builtin_strategies
from tfoperator.local.apiserver.objects.tfjobs import tfjobs

__all__ = [
    "CustomResource",
    "Layout",
    "Owned",
    "Owner",
    "Strategy",
    "after_update",
    "apply",
    "builtin_layout",
    "builtin_strategies",
    "carry_over",
    "check_identity",
    "check_types",
    "custom_resource",
    "generated_name",
    "managed_fields",
    "tfjobs",
    "validate_metadata",
    "validate_metadata_update",
]
