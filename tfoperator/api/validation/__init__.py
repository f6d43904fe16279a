"""Finds the problems of a TFJob.

The functions are pure: they take a job or a manifest, and return problems with the paths of their fields. `validate`
checks a typed job (the module `job`, with a further module for each of the larger parts of the spec).
`validate_manifest` (the module `manifest`) checks a handwritten manifest, and also finds misspelt and misplaced
members. The CRD has the same rules for API servers (`tfoperator.api.schema`). The functions and the CRD use the limits
from `tfoperator.api.fields.limits`.
"""
