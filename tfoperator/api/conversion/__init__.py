"""Converts TFJobs of older versions to v1, and v1 to v1alpha2.

The functions are pure: they take plain data, and return data and notes. The conversion between v1alpha2 and v1 loses
nothing: the module `preserved` keeps, in an annotation, the fields that the target version lacks. v1alpha1 is converted
to v1 only. The conversion drops no field silently: there is a note for each field that can't be carried over.
`versions` determines the conversion that an object needs. `misplaced` moves policies from where early releases had them
to where v1 has them now. `exported` makes a manifest of an object that was printed from a cluster.
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
