"""The representations of objects (JSON, metadata or a table), and their kinds' discovery and OpenAPI documents.
Pure, except for a file of this package (`builtin_schemas.json`).
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
