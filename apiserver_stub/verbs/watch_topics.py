"""Topics of watches: one object, or the objects of one node, as the watches of node agents select them.

With a thousand nodes, a change would otherwise notify a thousand watches of which it concerns one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apiserver_stub.storage.change_reader import ChangeReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.storage import Change, Collection
    from apiserver_stub.verbs.lists import Selection

_NODE = "spec.nodeName"
_NODE_NAMES = re.compile(rb'"nodeName":"([^"\\]*)"')
_INDEXABLE = re.compile(r"[A-Za-z0-9.-]+")
"""Names that JSON does not escape."""


def reader_of(collection: Collection, resource: Resource, chosen: Selection, position: int) -> ChangeReader:
    """Return a reader from *position* on of the changes that *chosen* may select; it can return others, too."""
    if chosen.name is not None and (chosen.namespace or not resource.namespaced):
        key = resource.key(chosen.namespace, chosen.name)
        return ChangeReader(collection, position, collection.topics("key", _keys), key)
    node = chosen.fields.pinned(_NODE) or ""
    # Not for custom kinds: defaults and conversions can give their objects a value that is not stored.
    is_stored = resource.fields.get(_NODE) == ("spec", "nodeName") and resource.schema is None
    if is_stored and _INDEXABLE.fullmatch(node):
        return ChangeReader(collection, position, collection.topics(_NODE, _nodes), node)
    return ChangeReader(collection, position)


def _keys(change: Change) -> Iterable[str]:
    return (change.record.key,)


def _nodes(change: Change) -> Iterable[str]:
    """Return the values of all fields with the name, also those of parts of the object that are not its node."""
    names = _NODE_NAMES.findall(change.record.data)
    if change.previous is not None:
        names += _NODE_NAMES.findall(change.previous.data)
    return {name.decode("ascii", "replace") for name in names}
