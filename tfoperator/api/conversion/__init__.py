"""How does a TFJob of an older version become v1, the hub? And v1 v1alpha2? Pure: plain data in, data and notes out.

v1alpha2 is converted both ways and loses nothing: what one version can't say is preserved in an annotation of the other
(`preserved`). v1alpha1 is converted to v1 only. What can't be carried over is never dropped silently: each such field
has a note. `versions` finds out which conversion an object needs.
"""

from tfoperator.api.conversion.preserved import V1_ONLY, V1ALPHA1_ONLY, V1ALPHA2_ONLY
from tfoperator.api.conversion.result import Conversion, ConversionError, Note
from tfoperator.api.conversion.v1alpha2 import checked_v1alpha2_to_v1, v1_to_v1alpha2, v1alpha2_to_v1
from tfoperator.api.conversion.versions import check, is_tfjob_kind, older_version, to_v1

__all__ = [
    "V1ALPHA1_ONLY",
    "V1ALPHA2_ONLY",
    "V1_ONLY",
    "Conversion",
    "ConversionError",
    "Note",
    "check",
    "checked_v1alpha2_to_v1",
    "is_tfjob_kind",
    "older_version",
    "to_v1",
    "v1_to_v1alpha2",
    "v1alpha2_to_v1",
]
