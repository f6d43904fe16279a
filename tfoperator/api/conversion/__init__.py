"""Converts TFJobs of older versions to v1, the hub, and v1 to v1alpha2. Pure: plain data in, data and notes out.

v1alpha2 is converted both ways and loses nothing: an annotation of the other version preserves the fields that it
lacks (`preserved`). v1alpha1 is converted to v1 only. The conversion drops no field silently: there is a note for each
field that can't be carried over. `versions` determines the conversion that an object needs. `misplaced` moves policies
to where v1 has them now, and `exported` makes a manifest of an object that a cluster has printed.
"""

from tfoperator.api.conversion.exported import without_server_fields
from tfoperator.api.conversion.misplaced import misplaced_policies, move_policies
from tfoperator.api.conversion.preserved import V1_ONLY
from tfoperator.api.conversion.result import Conversion, ConversionError
from tfoperator.api.conversion.v1alpha2 import checked_v1alpha2_to_v1, v1_to_v1alpha2, v1alpha2_to_v1
from tfoperator.api.conversion.versions import check, is_tfjob_kind, older_version, to_v1

__all__ = [
    "V1_ONLY",
    "Conversion",
    "ConversionError",
    "check",
    "checked_v1alpha2_to_v1",
    "is_tfjob_kind",
    "misplaced_policies",
    "move_policies",
    "older_version",
    "to_v1",
    "v1_to_v1alpha2",
    "v1alpha2_to_v1",
    "without_server_fields",
]
