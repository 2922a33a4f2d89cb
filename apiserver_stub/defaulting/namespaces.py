"""Default values of namespaces. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults
from nodeagent.base import identity

NAME_LABEL = identity.current().label("metadata.name")


def _label(namespace: Object) -> None:
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: name}


NAMESPACE = Defaults({"status": {}}, _label, {"status": Defaults({"phase": "Active"})})
