"""Validation of resource slices: the devices that a driver publishes.

Slices have the structure of API version ``v1``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    invalid_each,
    invalid_value,
    not_found_value,
    required,
    too_long,
    too_many,
)
from apiserver_stub.cel.devices import is_semver
from apiserver_stub.validation.affinity import validate_node_label_values, validate_node_selector
from apiserver_stub.validation.device_capacities import validate_capacity
from apiserver_stub.validation.device_claims import validate_binding_conditions
from apiserver_stub.validation.device_names import (
    validate_driver_name,
    validate_label,
    validate_list,
    validate_pool_name,
    validate_qualified_name,
    validate_set,
)
from apiserver_stub.validation.device_taint_rules import validate_taint
from apiserver_stub.validation.quantities import amount, is_native
from nodeagent.base.identity import Identity
from nodeagent.base.names import subdomain_problems

_MAX_DEVICES, _MAX_ADVANCED_DEVICES = 128, 64
_MAX_COUNTER_SETS, _MAX_COUNTERS, _MAX_CONSUMPTIONS = 8, 32, 2
_MAX_ATTRIBUTES, _MAX_VALUES, _MAX_TAINTS = 32, 48, 16
_VALUE_LIMIT_BYTES = 64
_LISTS = ("ints", "bools", "strings", "versions")
_SINGLE = ("int", "bool", "string", "version")
_SCOPES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_SCOPE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_SCOPE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_DEVICE_SCOPE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
_UNSET_OR_TRUE = "must be either unset or set to true"


def validate_slice(spec: Object, identity: Identity, old: Object | None = None) -> list[Cause]:
    """Return the errors in the specification of a slice; *old* is the stored one."""
    causes = validate_driver_name(spec.get("driver") or "", "spec.driver")
    causes += _validate_pool(spec.get("pool") or {})
    if old is not None:
        pairs = [
            ("pool.name", *((item.get("pool") or {}).get("name") for item in (spec, old))),
            *((name, spec.get(name), old.get(name)) for name in ("driver", "nodeName")),
        ]
        causes += [invalid_value(f"spec.{name}", new, "field is immutable") for name, new, was in pairs if new != was]
    causes += _validate_scope(spec, "spec", _ONE_SCOPE, per_device=False)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        causes.append(invalid_value("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    limit = _MAX_ADVANCED_DEVICES if any(map(_is_advanced, devices or ())) else _MAX_DEVICES
    before = {item.get("name"): item for item in (old or {}).get("devices") or ()}
    per_device = bool(spec.get("perDeviceNodeSelection"))
    validate = partial(_validate_device, before=before, per_device=per_device, identity=identity)
    causes += validate_set(devices, limit, validate, "spec.devices", _name)
    return causes + validate_set(counters, _MAX_COUNTER_SETS, _validate_counter_set, "spec.sharedCounters", _name)


def _name(item: Object) -> str:
    return item.get("name") or ""


def _is_advanced(device: Object) -> bool:
    attributes = (device.get("attributes") or {}).values()
    lists = any(item.get(name) is not None for item in attributes for name in _LISTS)
    return bool(device.get("taints") or device.get("consumesCounters") or lists)


def _validate_pool(pool: Object) -> list[Cause]:
    causes = validate_pool_name(pool.get("name") or "", "spec.pool.name")
    if (count := pool.get("resourceSliceCount") or 0) <= 0:
        causes.append(invalid_value("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if (generation := pool.get("generation") or 0) < 0:
        causes.append(invalid_value("spec.pool.generation", generation, "must be greater than or equal to zero"))
    return causes


def _validate_scope(owner: Object, field: str, rule: str, *, per_device: bool) -> list[Cause]:
    """Return the errors in the fields that select the nodes of a slice, or of one of its devices."""
    causes, chosen = list[Cause](), list[str]()
    for name in _SCOPES[:3] if per_device else _SCOPES:
        value = owner.get(name)
        if value is None:
            continue
        path = f"{field}.{name}"
        if name == "nodeName" and not value:
            detail = "must not be empty" if per_device else "must be either unset or set to a non-empty string"
            causes.append(invalid_value(path, value, detail))
            continue
        if name in ("allNodes", "perDeviceNodeSelection") and not value:
            causes.append(invalid_value(path, value, _UNSET_OR_TRUE))
            continue
        chosen.append(f"`{name}`")
        if name == "nodeName":
            causes += invalid_each(path, value, subdomain_problems(value))
        elif name == "nodeSelector":
            causes += validate_node_selector(value, path) + validate_node_label_values(value, path)
            terms = value.get("nodeSelectorTerms") or []
            if len(terms) != 1 and not per_device:
                detail = "must have exactly one node selector term"
                causes.append(invalid_value(f"{path}.nodeSelectorTerms", terms, detail))
    if not chosen:
        causes.append(required(field, rule))
    elif len(chosen) > 1:
        detail = rule if per_device else f"{rule}, but multiple fields are set"
        causes.append(invalid_value(field, f"{{{', '.join(chosen)}}}", detail))
    return causes


def _validate_device(
    device: Object, field: str, *, before: dict[str, Object], per_device: bool, identity: Identity
) -> list[Cause]:
    causes = validate_label(_name(device), f"{field}.name")
    attributes, capacities = device.get("attributes") or {}, device.get("capacity") or {}
    if (count := len(attributes) + len(capacities)) > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        causes.append(invalid_value(field, count, detail))
    if (count := sum(map(_values_in, attributes.values()))) > _MAX_VALUES:
        detail = f"the total number of attribute values must not exceed {_MAX_VALUES}"
        causes.append(invalid_value(field, count, detail))
    for name, attribute in attributes.items():
        causes += validate_qualified_name(name, f"{field}.attributes")
        causes += _validate_attribute(attribute, f"{field}.attributes[{name}]")
    shared = bool(device.get("allowMultipleAllocations"))
    for name, capacity in capacities.items():
        causes += validate_qualified_name(name, f"{field}.capacity")
        causes += validate_capacity(capacity, f"{field}.capacity[{name}]", shared=shared)
    taints = device.get("taints")
    if _name(device) not in before or before[_name(device)].get("taints") != taints:
        causes += validate_list(taints, _MAX_TAINTS, validate_taint, f"{field}.taints")
    causes += validate_set(
        device.get("consumesCounters"),
        _MAX_CONSUMPTIONS,
        _validate_consumption,
        f"{field}.consumesCounters",
        lambda item: item.get("counterSet") or "",
    )
    if per_device:
        causes += _validate_scope(device, field, _DEVICE_SCOPE, per_device=True)
    elif any(device.get(name) is not None for name in _SCOPES[:3]):
        causes.append(invalid_value(field, None, _NO_DEVICE_SCOPE))
    causes += validate_binding_conditions(device, field)
    return causes + _validate_mappings(device, f"{field}.nodeAllocatableResourceMappings", identity)


def _values_in(attribute: Object) -> int:
    return sum(len(attribute.get(name) or ()) for name in _LISTS) or 1


def _validate_attribute(attribute: Object, field: str) -> list[Cause]:
    causes = []
    present = [name for name in (*_SINGLE, *_LISTS) if attribute.get(name) is not None]
    for name in present:
        path, value = f"{field}.{name}", attribute[name]
        if name in _LISTS and not value:
            causes.append(invalid_value(path, value, "must not be empty if specified"))
        validate = {"string": _validate_text, "version": _validate_version}.get(name.removesuffix("s"))
        if validate is not None:
            items = [(f"{path}[{i}]", item) for i, item in enumerate(value)] if name in _LISTS else [(path, value)]
            causes += [cause for where, item in items for cause in validate(item, where)]
    if len(present) != 1:
        shown: Any = attribute if present else ""
        causes.append(invalid_value(field, shown, "exactly one value must be specified"))
    return causes


def _validate_text(text: str, field: str) -> list[Cause]:
    return [too_long(field, _VALUE_LIMIT_BYTES)] if len(text.encode()) > _VALUE_LIMIT_BYTES else []


def _validate_version(text: str, field: str) -> list[Cause]:
    detail = "must be a string compatible with semver.org spec 2.0.0"
    causes = [] if is_semver(text) else [invalid_value(field, text, detail)]
    return causes + _validate_text(text, field)


def _validate_counter_set(counters: Object, field: str) -> list[Cause]:
    return _validate_counters(counters, "name", field)


def _validate_consumption(consumption: Object, field: str) -> list[Cause]:
    return _validate_counters(consumption, "counterSet", field)


def _validate_counters(owner: Object, key: str, field: str) -> list[Cause]:
    name, counters = owner.get(key) or "", owner.get("counters") or {}
    causes = validate_label(name, f"{field}.{key}") if name else [required(f"{field}.{key}")]
    if not counters:
        return [*causes, required(f"{field}.counters")]
    if len(counters) > _MAX_COUNTERS:
        return [*causes, too_many(f"{field}.counters", len(counters), _MAX_COUNTERS)]
    return causes + [cause for counter in counters for cause in validate_label(counter, f"{field}.counters")]


def _validate_mappings(device: Object, field: str, identity: Identity) -> list[Cause]:
    causes, capacities = list[Cause](), device.get("capacity") or {}
    for name, mapping in (device.get("nodeAllocatableResourceMappings") or {}).items():
        path = f"{field}[{name}]"
        if not is_native(name, identity.label_domain):
            causes.append(invalid_value(path, name, "must be a node allocatable resource name"))
        factor, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
        if factor is None and key is None:
            detail = "at least one of allocationMultiplier or capacityKey must be set"
            causes.append(invalid_value(path, "", detail))
        if factor is not None and amount(factor).nanos <= 0:
            causes.append(invalid_value(f"{path}.allocationMultiplier", factor, "must be positive"))
        if key == "":
            causes.append(invalid_value(f"{path}.capacityKey", "", "capacityKey must not be an empty string"))
        elif key is not None and key not in capacities:
            causes.append(not_found_value(f"{path}.capacityKey", key))
    return causes
