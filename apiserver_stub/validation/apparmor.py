"""Validation of AppArmor profiles, and their copies between fields and annotations."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from apiserver_stub.validation.pod_containers import containers
from nodeagent.base.release import OLDEST, Release

_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_ANNOTATIONS = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}
_LOCAL = "localhost/"
_PATH_LIMIT = 4095


def validate_apparmor_profile(profile: Object | None, field: str, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in the AppArmor profile at *field*."""
    if profile is None:
        return []
    kind, name, at = profile.get("type") or "", profile.get("localhostProfile"), f"{field}.localhostProfile"
    if kind == "Localhost":
        return _validate_name(name, at, release)
    if not kind:
        return [required(f"{field}.type", "type is required when appArmorProfile is set")]
    if kind not in _TYPES:
        return [not_supported(f"{field}.type", kind, _TYPES)]
    return [] if name is None else [invalid_value(at, name, "can only be set when AppArmor type is Localhost")]


def validate_apparmor_match(annotations: Object, spec: Object, field: str, prefix: str) -> list[Cause]:
    """Return an error for every container of *spec* whose AppArmor profile differs from its annotation.

    :param prefix: prefix of the annotations, which the name of a container follows.
    """
    if (spec.get("os") or {}).get("name") == "windows":
        return []
    causes = []
    for path, container in containers(spec, field):
        annotation, profile = annotations.get(prefix + (container.get("name") or "")), _profile(container, spec)
        if annotation is None or profile is None:
            continue
        at, kind = f"{path}.securityContext.appArmorProfile", profile.get("type")
        mismatch = annotation != _ANNOTATIONS.get(kind, annotation)
        if mismatch or (kind == "Localhost" and not annotation.startswith(_LOCAL)):
            causes.append(forbidden_value(f"{at}.type", "apparmor type in annotation and field must match"))
        elif kind == "Localhost" and annotation.removeprefix(_LOCAL) != profile.get("localhostProfile"):
            detail = "apparmor profile in annotation and field must match"
            causes.append(forbidden_value(f"{at}.localhostProfile", detail))
    return causes


_DEPRECATED = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def copy_apparmor_profiles(pod: Object, prefix: str, *, to_annotations: bool) -> None:
    """Set the profile of each container of a new *pod* from its annotation.

    :param to_annotations: also set the annotation of containers with a profile, as releases before 1.34.
    """
    spec, metadata = pod["spec"], pod["metadata"]
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for _, container in containers(spec, ""):
        key = prefix + (container.get("name") or "")
        annotation = (metadata.get("annotations") or {}).get(key)
        if annotation is None:
            if to_annotations and (text := _annotation(_profile(container, spec))):
                metadata["annotations"] = {**(metadata.get("annotations") or {}), key: text}
        elif (container.get("securityContext") or {}).get("appArmorProfile") is None:
            found = _parse_annotation(annotation)
            if found is not None and found != (spec.get("securityContext") or {}).get("appArmorProfile"):
                container["securityContext"] = {**(container.get("securityContext") or {}), "appArmorProfile": found}


def apparmor_warnings(pod: Object, prefix: str) -> list[str]:
    """Return the warnings about annotations of a new *pod*, before they are copied, that a field should replace."""
    spec, annotations = pod["spec"], pod["metadata"].get("annotations") or {}
    if (spec.get("os") or {}).get("name") == "windows" or not any(key.startswith(prefix) for key in annotations):
        return []
    profile = (spec.get("securityContext") or {}).get("appArmorProfile")
    warnings = []
    for _, container in containers(spec, ""):
        key = prefix + (container.get("name") or "")
        if key in annotations and (container.get("securityContext") or {}).get("appArmorProfile") is None:
            found = _parse_annotation(annotations[key])
            if found is None or found != profile:
                warnings.append(f"metadata.annotations[{key}]: {_DEPRECATED}")
    return warnings


def _profile(container: Object, spec: Object) -> Any:
    own = (container.get("securityContext") or {}).get("appArmorProfile")
    return own if own is not None else (spec.get("securityContext") or {}).get("appArmorProfile")


def _annotation(profile: Object | None) -> str:
    if profile is None:
        return ""
    kind, name = profile.get("type"), profile.get("localhostProfile")
    return f"{_LOCAL}{name}" if kind == "Localhost" and name else _ANNOTATIONS.get(kind or "", "")


def _parse_annotation(text: str) -> Object | None:
    """Return the valid profile in an annotation, ``None`` if there is none."""
    for kind, annotation in _ANNOTATIONS.items():
        if text == annotation:
            return {"type": kind}
    if not text.startswith(_LOCAL):
        return None
    found = {"type": "Localhost", "localhostProfile": text.removeprefix(_LOCAL)}
    return None if validate_apparmor_profile(found, "") else found


def _validate_name(name: str | None, field: str, release: Release) -> list[Cause]:
    if not name:
        return [required(field, "must be set when AppArmor type is Localhost")]
    causes = []
    if name != name.strip():
        causes.append(invalid_value(field, name, "must not be padded with whitespace"))
    if len(name.encode()) > _PATH_LIMIT:
        causes.append(too_long(field, _PATH_LIMIT, release))
    return causes
