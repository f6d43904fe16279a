"""Finds the problems of a TFJob. Pure: a job or a manifest in, problems with the paths of their fields out.

`validate` checks a typed job (`job`, with a module each for the larger parts of the spec); `validate_manifest` checks a
handwritten manifest, and finds misspelt and misplaced members, too (`manifest`). The CRD has the same rules for API
servers (`tfoperator.api.schema`), with the limits of `limits`.
"""
