"""Records and changes: the values that stores hold and publish.

Objects are JSON bytes that start with ``kind``, ``apiVersion``, ``metadata`` in this order and have no
``resourceVersion``. The store assigns the revision and inserts it (:func:`with_revision`), so an object is encoded
once for its response, its row and all of its watchers.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

_METADATA = b'"metadata":{'


class Record(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Served form of one object: its key (``ns/name`` or ``name``), revision and JSON bytes.

    Records are numerous and contain no cycles, so Python's garbage collector does not track them.
    """

    key: str
    revision: int
    data: bytes


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Change(msgspec.Struct, gc=False, eq=False):
    """One revision of a collection; *record* of a deletion is the last state with the deletion's revision.

    ``shared`` caches values that watchers derive from the change (decoded objects, encoded frames).
    """

    type: ChangeType
    record: Record
    previous: Record | None
    shared: dict[Any, Any] | None = None

    @property
    def revision(self) -> int:
        return self.record.revision


def with_revision(data: bytes, revision: int) -> bytes:
    """Return *data* with ``resourceVersion`` as the first field of its metadata."""
    head, _, tail = data.partition(_METADATA)
    comma = b"" if tail[:1] == b"}" else b","
    return b'%s"metadata":{"resourceVersion":"%d"%s%s' % (head, revision, comma, tail)


def without_revision(data: bytes) -> bytes:
    """Return *data* without the ``resourceVersion`` that :func:`with_revision` inserted."""
    head, _, tail = data.partition(b'"metadata":{"resourceVersion":"')
    _, _, rest = tail.partition(b'"')
    return b'%s"metadata":{%s' % (head, rest.removeprefix(b","))
