"""Validation of nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    internal_error,
    invalid_value,
    quote,
    required,
)
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.addresses import Network, family, parse_cidr
from apiserver_stub.validation.labels import validate_label_name
from apiserver_stub.validation.quantities import validate_amount
from apiserver_stub.validation.tolerations import validate_taint_effect
from nodeagent.base.identity import Identity
from nodeagent.base.names import label_value_problems

_FEATURE_LIMIT = 253
_FEATURE_RULE = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_feature = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_BLOCKS = "spec.podCIDRs"


def validate_node(node: Object, identity: Identity, rules: AddressRules = EARLY_RULES) -> list[Cause]:
    """Return the errors in a new node, except for its metadata."""
    causes = _validate_annotations(node, identity) + _validate_taints(
        node["spec"].get("taints") or (), "metadata.taints"
    )
    causes += _validate_resources(node, identity.label_domain)
    return causes + _validate_blocks(node["spec"].get("podCIDRs") or [], rules)


def validate_declared_features(features: Sequence[str], field: str) -> list[Cause]:
    """Return the errors in the features that a node declares: sorted, unique names."""
    causes = []
    for index, name in enumerate(features):
        if len(name) > _FEATURE_LIMIT:
            detail = f"must be no more than {_FEATURE_LIMIT} characters"
            causes.append(invalid_value(f"{field}[{index}]", name, f"invalid feature name {quote(name)}: {detail}"))
        elif not _feature.fullmatch(name):
            detail = f"invalid feature name {quote(name)}: {_FEATURE_RULE}"
            causes.append(invalid_value(f"{field}[{index}]", name, detail))
        if index and name == features[index - 1]:
            causes.append(duplicate(f"{field}[{index}]", name))
        elif index and name < features[index - 1]:
            causes.append(invalid_value(f"{field}[{index}]", name, "list must be sorted alphabetically"))
    return causes


def validate_node_update(node: Object, old: Object, identity: Identity) -> list[Cause]:
    """Return the errors in a changed node, except for its metadata."""
    spec, before = node["spec"], old.get("spec") or {}
    causes = _validate_annotations(node, identity) + _validate_resources(node, identity.label_domain)
    seen: list[Object] = []
    for index, address in enumerate((node.get("status") or {}).get("addresses") or ()):
        if address in seen:
            shown = (f"{name}:{quote(address.get(name.lower()) or '')}" for name in ("Type", "Address"))
            text = f"Duplicate value: core.NodeAddress{{{', '.join(shown)}}}"
            causes.append(Cause("FieldValueDuplicate", text, f"status.addresses[{index}]"))
        seen.append(address)
    causes += _validate_blocks_update(spec.get("podCIDRs") or [], before.get("podCIDRs") or [])
    if (known := before.get("providerID")) and spec.get("providerID") != known:
        detail = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden_value("spec.providerID", detail))
    causes += _validate_taints(spec.get("taints") or (), "metadata.taints")
    if (spec.get("externalID") or "") != (before.get("externalID") or ""):
        causes.append(forbidden_value("spec.externalID", "may not be updated"))
    return causes


def _validate_annotations(node: Object, identity: Identity) -> list[Cause]:
    annotations = node["metadata"].get("annotations") or {}
    causes: list[Cause] = []
    key = identity.label("taints", "scheduler.alpha")
    if text := annotations.get(key):
        taints = _decoded(text, list)
        if taints is None:
            causes.append(invalid_value("metadata.annotations", key, "invalid list of taints"))
        else:
            causes += _validate_taints(taints, f"metadata.annotations.{key}")
    key = identity.label("preferAvoidPods", "scheduler.alpha")
    if text := annotations.get(key):
        avoided = _decoded(text, dict)
        if avoided is None:
            causes.append(invalid_value("metadata.annotations.AvoidPods", key, "invalid list of controllers"))
        else:
            causes += _validate_avoided(avoided.get("preferAvoidPods") or (), f"metadata.annotations.{key}")
    return causes


def _decoded(text: str, kind: type) -> Any:
    """Return the value of JSON *text*, ``None`` for another kind of value."""
    try:
        value = objects.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return None
    items = value if isinstance(value, list) else []
    return value if isinstance(value, kind) and all(isinstance(item, dict) for item in items) else None


def _validate_avoided(entries: Sequence[Any], field: str) -> list[Cause]:
    causes = []
    for index, entry in enumerate(entries):
        controller = ((entry or {}).get("podSignature") or {}).get("podController")
        if controller is None:
            causes.append(required(f"{field}[{index}].PodSignature"))
        elif controller.get("controller") is not True:
            detail = "must point to a controller"
            causes.append(invalid_value(f"{field}[{index}].PodSignature.PodController", False, detail))
    return causes


def _validate_taints(taints: Sequence[Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"{field}[{index}]"
        key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
        causes += validate_label_name(key, f"{path}.key")
        if problems := label_value_problems(value):
            causes.append(invalid_value(f"{path}.value", value, ";".join(problems)))
        causes += validate_taint_effect(effect, f"{path}.effect")
        if (key, effect) in seen:
            added = _go_time(taint.get("timeAdded"))
            shown = f"core.Taint{{Key:{quote(key)}, Value:{quote(value)}, Effect:{quote(effect)}, TimeAdded:{added}}}"
            text = f"Duplicate value: {shown}: taints must be unique by key and effect pair"
            causes.append(Cause("FieldValueDuplicate", text, path))
        seen.add((key, effect))
    return causes


def _go_time(text: str | None) -> str:
    """Return a time as Go prints the structure."""
    time = objects.parse_time(text)
    if time is None:
        return "<nil>"
    day = f"{time.year}, time.{time:%B}, {time.day}"
    return f"time.Date({day}, {time.hour}, {time.minute}, {time.second}, 0, time.Local)"


def _validate_resources(node: Object, label_domain: str) -> list[Cause]:
    status = node.get("status") or {}
    return [
        cause
        for name in ("capacity", "allocatable")
        for resource, amount in (status.get(name) or {}).items()
        for cause in validate_amount(resource, amount, f"status.{name}.{resource}", label_domain)
    ]


def node_warnings(node: Object, rules: AddressRules) -> list[str]:
    """Return the warnings about a valid node."""
    spec, warnings = node["spec"], []
    if spec.get("externalID"):
        warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    if rules.is_revised:
        for index, block in enumerate(spec.get("podCIDRs") or ()):
            warnings += rules.block_warnings(f"{_BLOCKS}[{index}]", block)
    return warnings


def _validate_blocks(blocks: list[str], rules: AddressRules) -> list[Cause]:
    parsed = [parse_cidr(text) for text in blocks]
    if rules.is_revised:
        causes = [
            cause for index, text in enumerate(blocks) for cause in rules.validate_block(text, f"{_BLOCKS}[{index}]")
        ]
    else:
        causes = _early_block_causes(blocks, parsed)
    if len(blocks) < 2:
        return causes
    if None in parsed:
        index = parsed.index(None)
        reason = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {blocks[index]})"
        detail = f"invalid PodCIDRs. failed to check with dual stack with error:{reason}"
        causes.append(internal_error(_BLOCKS, detail))
    if None in parsed or len(blocks) > 2 or len({family(block) for block in parsed if block is not None}) < 2:
        causes.append(invalid_value(_BLOCKS, blocks, "may specify no more than one CIDR for each IP family"))
    return causes + [
        duplicate(f"{_BLOCKS}[{index}]", text) for index, text in enumerate(blocks) if text in blocks[:index]
    ]


def _early_block_causes(blocks: list[str], parsed: list[Network | None]) -> list[Cause]:
    return [
        invalid_value(f"{_BLOCKS}[{index}]", blocks, "must be valid CIDR")
        for index, block in enumerate(parsed)
        if block is None
    ]


def _validate_blocks_update(new: list[str], old: list[str]) -> list[Cause]:
    cause = forbidden_value(_BLOCKS, 'node updates may not change podCIDR except from "" to valid')
    if not old:
        return []
    if len(new) != len(old):
        return [cause]
    return [cause for one, other in zip(new, old, strict=True) if one != other]
