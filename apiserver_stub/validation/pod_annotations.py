"""Validation of annotations that are settings of a pod."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

import msgspec

from apiserver_stub.apimachinery.objects import Object, decode
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value
from apiserver_stub.validation.file_paths import validate_descending_path
from apiserver_stub.validation.pod_containers import containers
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.tolerations import validate_tolerations
from nodeagent.base.gointeger import IntegerError, parse_int64
from nodeagent.base.identity import Identity

_COST = re.compile(r"-?[0-9]+", re.ASCII)
_LOCAL = "localhost/"
_SECCOMP_PROFILES = ("runtime/default", "docker/default", "unconfined")
_APPARMOR_PROFILES = ("", "runtime/default", "unconfined")
_SECCOMP_VALUES = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}


class Keys(NamedTuple):
    """Annotation keys; a prefix is followed by the name of a container."""

    mirror: str
    tolerations: str
    deletion_cost: str
    seccomp: str
    seccomp_prefix: str
    apparmor_prefix: str


@cache
def keys(identity: Identity) -> Keys:
    """Return the annotation keys."""
    label = identity.label
    return Keys(
        label("config.mirror"),
        label("tolerations", "scheduler.alpha"),
        label("pod-deletion-cost", "controller"),
        label("pod", "seccomp.security.alpha"),
        label("", "container.seccomp.security.alpha"),
        label("", "container.apparmor.security.beta"),
    )


def validate_pod_annotations(annotations: Object, spec: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the annotations at *field* of a pod or pod template with *spec*."""
    causes: list[Cause] = []
    known = keys(options.identity)
    mirror = annotations.get(known.mirror)
    if mirror is not None and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        causes.append(invalid_value(f"{field}[{known.mirror}]", mirror, detail))
    if text := annotations.get(known.tolerations):
        causes += _validate_tolerations(text, field, known.tolerations)
    cost = annotations.get(known.deletion_cost)
    if cost is not None and not options.any_deletion_cost and not is_deletion_cost(cost):
        causes.append(invalid_value(f"{field}[{known.deletion_cost}]", cost, "must be a 32bit integer"))
    names = None
    for key, value in annotations.items():
        if key == known.seccomp or key.startswith(known.seccomp_prefix):
            causes += _validate_seccomp(value, f"{field}.{key}")
        elif key.startswith(known.apparmor_prefix):
            if names is None:
                names = {container.get("name") for _, container in containers(spec, "")}
            causes += _validate_apparmor(key.removeprefix(known.apparmor_prefix), value, f"{field}[{key}]", names)
    return causes


def validate_pod_annotation_update(new: Object, old: Object, field: str, identity: Identity) -> list[Cause]:
    """Return the errors in a change of annotations of a pod."""
    if new == old:
        return []
    changed = [(key, "remove or update") for key, value in old.items() if new.get(key) != value]
    changed += [(key, "add") for key in new if key not in old]
    known = keys(identity)
    causes = []
    for key, verb in changed:
        if key.startswith(known.apparmor_prefix):
            causes.append(forbidden_value(f"{field}[{key}]", f"may not {verb} AppArmor annotations"))
        elif key == known.mirror:
            causes.append(forbidden_value(f"{field}[{key}]", f"may not {verb} mirror pod annotation"))
    return causes


def validate_seccomp_match(annotations: Object, spec: Object, field: str, identity: Identity) -> list[Cause]:
    """Return an error for every seccomp profile in *spec*, which is at *field*, that differs from its annotation."""
    known = keys(identity)
    if not any(key == known.seccomp or key.startswith(known.seccomp_prefix) for key in annotations):
        return []
    owners = [(known.seccomp, field, spec)]
    owners += [(known.seccomp_prefix + (item.get("name") or ""), path, item) for path, item in containers(spec, field)]
    causes = []
    for key, path, owner in owners:
        profile = (owner.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            causes += _validate_match(annotations[key], profile, f"{path}.securityContext.seccompProfile")
    return causes


def is_deletion_cost(text: str) -> bool:
    """Return whether *text* is a deletion cost: a number of 32 bits without leading zeros or plus sign."""
    if not _COST.fullmatch(text) or (text.startswith("0") and text != "0"):
        return False
    try:
        return -(1 << 31) <= parse_int64(text) < 1 << 31
    except IntegerError:
        return False


def _validate_tolerations(text: str, field: str, key: str) -> list[Cause]:
    try:
        found: Any = decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return [invalid_value(field, key, str(error))]
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        return [invalid_value(field, key, "json: cannot unmarshal into Go value of type []core.Toleration")]
    return validate_tolerations(found, f"{field}.{key}")


def _validate_seccomp(profile: str, field: str) -> list[Cause]:
    if profile in _SECCOMP_PROFILES:
        return []
    if profile.startswith(_LOCAL):
        return validate_descending_path(profile.removeprefix(_LOCAL), field)
    return [invalid_value(field, profile, "must be a valid seccomp profile")]


def _validate_apparmor(container: str, profile: str, field: str, names: set[str | None]) -> list[Cause]:
    causes = [] if container in names else [invalid_value(field, container, "container not found")]
    if profile not in _APPARMOR_PROFILES and not profile.startswith(_LOCAL):
        causes.append(invalid_value(field, profile, f'invalid AppArmor profile name: "{profile}"'))
    return causes


def _validate_match(annotation: str, profile: Object, field: str) -> list[Cause]:
    kind = profile.get("type")
    if kind in _SECCOMP_VALUES:
        matches = annotation in _SECCOMP_VALUES[kind]
    else:
        matches = kind != "Localhost" or annotation.startswith(_LOCAL)
    if not matches:
        return [forbidden_value(f"{field}.type", "seccomp type in annotation and field must match")]
    if kind == "Localhost" and annotation.removeprefix(_LOCAL) != profile.get("localhostProfile"):
        detail = "seccomp profile in annotation and field must match"
        return [forbidden_value(f"{field}.localhostProfile", detail)]
    return []
