"""Default values of namespaces. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults
from nodeagent.base.identity import Identity


def name_label(identity: Identity) -> str:
    """Return the label with the name of a namespace."""
    return identity.label("metadata.name")


def namespace_defaults(name_label: str) -> Defaults:
    """Return the table of a Namespace; *name_label* is the label with its name."""

    def default_label(namespace: Object) -> None:
        metadata = namespace["metadata"]
        if name := metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), name_label: name}

    return Defaults({"status": {}}, default_label, {"status": Defaults({"phase": "Active"})})
