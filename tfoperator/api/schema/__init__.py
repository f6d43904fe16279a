"""What does an API server know about TFJobs? The CustomResourceDefinition, made from the types. Pure.

`structs` turns a type into a schema, `fields` says what a type can't say (descriptions, bounds, defaults, rules),
`cel_rules` has the rules about names and replica types, `v1alpha2` derives that version's schema from v1's, and `crd`
puts everything together. The operator's process loads none of it.
"""

from tfoperator.api.schema.crd import crd, crd_yaml, openapi_schema, versions_patch_yaml
from tfoperator.api.schema.structs import Schema
from tfoperator.api.schema.v1alpha2 import V1ALPHA2_TYPES

__all__ = ["V1ALPHA2_TYPES", "Schema", "crd", "crd_yaml", "openapi_schema", "versions_patch_yaml"]
