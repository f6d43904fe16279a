"""TFJobs of older versions as `kubeflow.org/v1`, the hub, and v1 as v1alpha2. Pure: plain data in, data and notes out.

v1alpha2 goes both ways and loses nothing: what one version can't say is kept in an annotation of the other (`kept`).
v1alpha1 only goes forward. What can't be carried over is never dropped silently: each such field has a note.
"""

from tfoperator.api.conversion.kept import V1_ONLY, V1ALPHA1_ONLY, V1ALPHA2_ONLY
from tfoperator.api.conversion.result import Conversion, ConversionError, Note
from tfoperator.api.conversion.v1alpha2 import v1_to_v1alpha2, v1alpha2_to_v1
from tfoperator.api.conversion.versions import OLDER_VERSIONS, check, is_tfjob_kind, older_version, to_v1

__all__ = [
    "OLDER_VERSIONS",
    "V1ALPHA1_ONLY",
    "V1ALPHA2_ONLY",
    "V1_ONLY",
    "Conversion",
    "ConversionError",
    "Note",
    "check",
    "is_tfjob_kind",
    "older_version",
    "to_v1",
    "v1_to_v1alpha2",
    "v1alpha2_to_v1",
]
