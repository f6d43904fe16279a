"""How objects are shown: as JSON, as metadata alone or as a table, and what discovery and OpenAPI say of their kinds.
Pure, but for a file of this package (`builtin_schemas.json`).
"""

from tfoperator.local.apiserver.display.discovery import VERSION, Discovery
from tfoperator.local.apiserver.display.openapi import OPENAPI_V2_TYPE, OpenAPI, openapi_v2_protobuf
from tfoperator.local.apiserver.display.representation import Representation, negotiate, representation
from tfoperator.local.apiserver.display.tables import TableFormat, table_formats

__all__ = [
    "OPENAPI_V2_TYPE",
    "VERSION",
    "Discovery",
    "OpenAPI",
    "Representation",
    "TableFormat",
    "negotiate",
    "openapi_v2_protobuf",
    "representation",
    "table_formats",
]
