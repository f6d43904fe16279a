"""The TFJob API: its types, names and defaults, and one subpackage for each larger part.

`v1` has the types; `validation` finds the problems of a job, `schema` makes the CRD for API servers, `conversion` turns
older versions into v1, `loading` turns a file into manifests. The operator's process needs the first two only, so the
others must be imported by name.
"""

from tfoperator.api.defaults import default
from tfoperator.api.problems import Problem, Severity, errors
from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.api.validation import validate, validate_manifest

__all__ = ["Problem", "Severity", "TFJob", "decode_tfjob", "default", "errors", "validate", "validate_manifest"]
