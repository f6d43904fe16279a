"""Objects by key, with conditional writes: the storage of records where no local disk outlives their runner.

`object_store.py` defines the interface of a store, `s3.py` is one over S3's API, `files.py` one in a directory, and
`opening.py` opens the store of a URL. boto3 is imported here and nowhere else, and only for a URL that needs it.
"""

from tfoperator.pipeline.objects.files import FileObjects
from tfoperator.pipeline.objects.object_store import (
    ABSENT,
    ObjectConflict,
    ObjectStore,
    ObjectStoreError,
    Stored,
    check_conditional_writes,
)
from tfoperator.pipeline.objects.opening import is_url, open_objects

__all__ = [
    "ABSENT",
    "FileObjects",
    "ObjectConflict",
    "ObjectStore",
    "ObjectStoreError",
    "Stored",
    "check_conditional_writes",
    "is_url",
    "open_objects",
]
