"""Migration from client-side ``kubectl apply`` to server-side apply and back, by the annotation of kubectl. No I/O."""

from __future__ import annotations

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import escape_json
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema.field_sets import FieldSet, difference
from apiserver_stub.schema.shapes import Shape
from apiserver_stub.schema.typed.comparison import compare, fields_of
from apiserver_stub.schema.typed.validation import validate
from apiserver_stub.validation.metadata import ANNOTATIONS_LIMIT_BYTES
from nodeagent.base.identity import Identity

MANAGER = "kubectl"
"""Field manager for which an apply updates the annotation."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def undisputed(shape: Shape, live: Object, identity: Identity) -> FieldSet | None:
    """Return the fields in the annotation of *live* that still have these values; to apply them is not a conflict.

    ``None`` if *live* has no annotation that is valid for its API version.
    """
    text = (live["metadata"].get("annotations") or {}).get(_annotation(identity))
    try:
        config = objects.decode(text.encode()) if text else None
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(config, dict) or not config.get("kind") or config.get("apiVersion") != live["apiVersion"]:
        return None
    if validate(config, shape):
        return None
    fields = fields_of(config, shape)
    for changed in compare(config, live, shape):
        fields = difference(fields, changed)
    return fields


def refresh(obj: Object, config: Object, identity: Identity) -> None:
    """Set the annotation of *obj*, if present, to the applied *config*; remove it if it gets too large."""
    key, annotations = _annotation(identity), obj["metadata"].get("annotations")
    if not annotations or not annotations.get(key):
        return
    applied = dict(config)
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and "annotations" in metadata:
        kept = metadata["annotations"]
        metadata = applied["metadata"] = {name: value for name, value in metadata.items() if name != "annotations"}
        if isinstance(kept, dict) and None not in kept.values():
            metadata["annotations"] = {name: value for name, value in kept.items() if name != key}
    annotations = {**annotations, key: escape_json(_encode(applied).decode()) + "\n"}
    if sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items()) > ANNOTATIONS_LIMIT_BYTES:
        del annotations[key]
    obj["metadata"] = {**obj["metadata"], "annotations": annotations}


def _annotation(identity: Identity) -> str:
    return identity.label("last-applied-configuration", "kubectl")
