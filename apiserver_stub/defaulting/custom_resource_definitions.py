"""Defaults of CustomResourceDefinitions."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults

_PORT = 443
_CONVERSION = Defaults(
    below={"webhook": Defaults(below={"clientConfig": Defaults(below={"service": Defaults({"port": _PORT})})})}
)


def set_defaults(definition: Object) -> None:
    """Set the defaults of *definition* in place."""
    spec = definition["spec"]
    names = spec["names"]
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    _CONVERSION.apply(spec["conversion"])
    if not any((spec["conversion"].get("webhook") or {}).values()):
        spec["conversion"].pop("webhook", None)  # Upstream stores its fields as those of the conversion.
    set_status_defaults(definition)


def set_status_defaults(definition: Object) -> None:
    """Set the defaults in the status of *definition* in place."""
    spec, status = definition["spec"], definition.get("status")
    if status is not None and not status.get("storedVersions"):
        stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
        if stored:
            status["storedVersions"] = stored[:1]
