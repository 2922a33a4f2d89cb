"""Validation of volume attachments."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_each, invalid_value, required, too_long
from apiserver_stub.validation.persistent_volumes import validate_volume_spec
from apiserver_stub.validation.volume_sources import validate_csi_driver_name
from nodeagent.base.identity import Identity
from nodeagent.base.names import subdomain_problems
from nodeagent.base.release import OLDEST, Release

_METADATA_LIMIT_BYTES, _MESSAGE_LIMIT_BYTES = 256 << 10, 1 << 10
_VALIDATED_ALIKE = Release(1, 36)
"""First release that validates new and changed attachments alike, each error once."""
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def validate_attachment(new: Object, identity: Identity, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in a new attachment."""
    causes, spec = _validate(new, identity), new.get("spec") or {}
    attacher = spec.get("attacher") or ""
    if attacher or release < _VALIDATED_ALIKE:
        causes += validate_csi_driver_name(attacher, "spec.attacher", release)
    if (name := (spec.get("source") or {}).get("persistentVolumeName")) is not None:
        causes += invalid_each("spec.source.persistentVolumeName", name, subdomain_problems(name))
    return causes


def validate_attachment_update(new: Object, old: Object, identity: Identity, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in the change of an attachment, whose specification is immutable."""
    if release >= _VALIDATED_ALIKE:
        causes = validate_attachment(new, identity, release)
    else:
        causes = _validate(new, identity) * 2  # As upstream.
    if new.get("spec") != old.get("spec"):
        causes.append(invalid_value("spec", new.get("spec"), "field is immutable"))
    return causes


def _validate(new: Object, identity: Identity) -> list[Cause]:
    spec, status = new.get("spec") or {}, new.get("status") or {}
    node = spec.get("nodeName") or ""
    causes = [] if spec.get("attacher") else [required("spec.attacher")]
    causes += _validate_source(spec.get("source") or {}, "spec.source", identity)
    causes += invalid_each("spec.nodeName", node, subdomain_problems(node))
    size = sum(
        len(key.encode()) + len(value.encode()) for key, value in (status.get("attachmentMetadata") or {}).items()
    )
    if size > _METADATA_LIMIT_BYTES:
        causes.append(too_long("status.attachmentMetadata", _METADATA_LIMIT_BYTES))
    for name in ("attachError", "detachError"):
        error = status.get(name) or {}
        if (error.get("errorCode") or 0) < 0:
            detail = "must be between 0 and 2147483647, inclusive"
            causes.append(invalid_value(f"status.{name}.errorCode", error["errorCode"], detail))
        if len((error.get("message") or "").encode()) > _MESSAGE_LIMIT_BYTES:
            causes.append(too_long(f"status.{name}.message", _METADATA_LIMIT_BYTES))  # The limit that upstream names.
    return causes


def _validate_source(source: Object, field: str, identity: Identity) -> list[Cause]:
    name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if name is None and inline is None:
        return [required(field, _ONE_SOURCE)]
    if inline is None:
        return (
            [] if name else [required(f"{field}.persistentVolumeName", "must specify non empty persistentVolumeName")]
        )
    if name is not None:
        return [forbidden_value(field, _ONE_SOURCE)]
    return validate_volume_spec(inline, "", f"{field}.inlineVolumeSpec", identity, inline=True)
