"""Validation of resource claims, their templates, and the status of claims.

Objects have the structure of API version ``v1``.
"""

from __future__ import annotations

import ipaddress

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from apiserver_stub.validation.affinity import validate_node_label_values, validate_node_selector
from apiserver_stub.validation.claim_spec import validate_template_metadata
from apiserver_stub.validation.conditions import validate_conditions
from apiserver_stub.validation.device_names import (
    RequestNames,
    request_names,
    validate_driver_name,
    validate_label,
    validate_list,
    validate_pool_name,
    validate_request_reference,
    validate_request_references,
    validate_set,
    validate_uid,
)
from apiserver_stub.validation.device_requests import (
    MAX_CONFIGURATIONS,
    DeviceRules,
    validate_configuration,
    validate_devices,
    validate_json_object,
)
from apiserver_stub.validation.labels import validate_label_name

MAX_CONSUMERS = 256
_MAX_RESULTS, _MAX_CONDITIONS, _MAX_ADDRESSES, _MAX_BINDING_CONDITIONS = 32, 8, 16, 4
_DATA_LIMIT_BYTES, _INTERFACE_LIMIT_BYTES, _HARDWARE_LIMIT_BYTES = 10 << 10, 256, 128
_SOURCES = ("FromClaim", "FromClass")
_IMMUTABLE = "field is immutable"


def validate_claim(claim: Object, rules: DeviceRules) -> list[Cause]:
    """Return the errors in the specification of a new claim."""
    return validate_devices(claim["spec"].get("devices") or {}, "spec.devices", rules)


def validate_template(template: Object, rules: DeviceRules) -> list[Cause]:
    """Return the errors in a new claim template."""
    spec = template["spec"]
    causes = validate_template_metadata(spec.get("metadata") or {}, "spec.metadata")
    devices = (spec.get("spec") or {}).get("devices") or {}
    return causes + validate_devices(devices, "spec.spec.devices", rules)


def validate_same_spec(new: Object, old: Object) -> list[Cause]:
    """Return an error if the specification, which is immutable, has changed."""
    same = new.get("spec") == old.get("spec")
    return [] if same else [invalid_value("spec", new.get("spec"), _IMMUTABLE)]


def validate_claim_status(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the changed status of a claim."""
    status, before = new.get("status") or {}, old.get("status") or {}
    names = request_names(new["spec"].get("devices") or {})
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    key = lambda item: item.get("uid")  # noqa: E731
    causes = validate_set(consumers, MAX_CONSUMERS, _validate_consumer, "status.reservedFor", key)
    causes += _validate_device_statuses(status.get("devices") or (), allocation)
    if consumers and allocation is None:
        detail = "may not be specified when `allocated` is not set"
        causes.append(forbidden_value("status.reservedFor", detail))
    elif "deletionTimestamp" in new["metadata"] and any(
        item not in (before.get("reservedFor") or ()) for item in consumers
    ):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        causes.append(forbidden_value("status.reservedFor", detail))
    if allocation is not None:
        if before.get("allocation") is None:
            causes += _validate_allocation(allocation, "status.allocation", names)
        elif before["allocation"] != allocation:
            causes.append(invalid_value("status.allocation", allocation, _IMMUTABLE))
    return causes


def device_key(device: Object) -> tuple[str, str, str, str]:
    """Return the identity of an allocated device."""
    driver, pool, name, share = (device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))
    return driver, pool, name, share


def validate_binding_conditions(device: Object, field: str) -> list[Cause]:
    """Return the errors in the conditions that a device must fulfill before pods are bound."""
    conditions, failures = (device.get(name) or [] for name in ("bindingConditions", "bindingFailureConditions"))
    causes = []
    for name, items in (("bindingConditions", conditions), ("bindingFailureConditions", failures)):
        causes += validate_list(items, _MAX_BINDING_CONDITIONS, validate_label_name, f"{field}.{name}")
    for name, items in (("bindingConditions", conditions), ("bindingFailureConditions", failures)):
        for index, item in enumerate(items):
            path = f"{field}.{name}[{index}]"
            if item in items[:index]:
                causes.append(duplicate(path, item))
            if items is failures and item in conditions:
                detail = "bindingFailureConditions must not overlap with bindingConditions"
                causes.append(invalid_value(path, item, detail))
    if failures and not conditions:
        detail = "bindingConditions are required to use bindingFailureConditions"
        causes.append(invalid_value(f"{field}.bindingConditions", conditions, detail))
    if conditions and not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        causes.append(invalid_value(f"{field}.bindingFailureConditions", failures, detail))
    return causes


def _validate_consumer(consumer: Object, field: str) -> list[Cause]:
    return [required(f"{field}.{name}") for name in ("resource", "name", "uid") if not consumer.get(name)]


def _validate_allocation(allocation: Object, field: str, names: RequestNames) -> list[Cause]:
    devices = allocation.get("devices") or {}

    def validate_result(result: Object, path: str) -> list[Cause]:
        causes = validate_request_reference(result.get("request") or "", f"{path}.request", names)
        causes += _validate_device_id(result, path)
        causes += validate_binding_conditions(result, path)
        share = result.get("shareID")
        return causes if share is None else causes + validate_uid(share, f"{path}.shareID")

    def validate_config(config: Object, path: str) -> list[Cause]:
        source, causes = config.get("source") or "", list[Cause]()
        if not source:
            causes.append(required(f"{path}.source"))
        elif source not in _SOURCES:
            causes.append(not_supported(f"{path}.source", source, _SOURCES))
        causes += validate_request_references(config.get("requests") or (), f"{path}.requests", names)
        return causes + validate_configuration(config, path)

    causes = validate_list(devices.get("results"), _MAX_RESULTS, validate_result, f"{field}.devices.results")
    limit = 2 * MAX_CONFIGURATIONS  # Those of the class and those of the claim.
    causes += validate_list(devices.get("config"), limit, validate_config, f"{field}.devices.config")
    if (selector := allocation.get("nodeSelector")) is not None:
        causes += validate_node_selector(selector, f"{field}.nodeSelector")
        causes += validate_node_label_values(selector, f"{field}.nodeSelector")
    return causes


def _validate_device_id(device: Object, field: str) -> list[Cause]:
    causes = validate_driver_name(device.get("driver") or "", f"{field}.driver")
    causes += validate_pool_name(device.get("pool") or "", f"{field}.pool")
    return causes + validate_label(device.get("device") or "", f"{field}.device")


def _validate_device_statuses(statuses: tuple[Object, ...] | list[Object], allocation: Object | None) -> list[Cause]:
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    allocated = {device_key(item) for item in results}
    causes: list[Cause] = []
    seen = set()
    for index, status in enumerate(statuses):
        field, key = f"status.devices[{index}]", device_key(status)
        shown = "/".join(filter(None, key))
        causes += _validate_device_id(status, field)
        if (share := status.get("shareID")) is not None:
            causes += validate_uid(share, f"{field}.shareID")
        if key not in allocated:
            causes.append(invalid_value(field, shown, "must be an allocated device in the claim"))
        conditions = status.get("conditions") or []
        if len(conditions) > _MAX_CONDITIONS:
            causes.append(too_many(f"{field}.conditions", len(conditions), _MAX_CONDITIONS))
        causes += validate_conditions(conditions, f"{field}.conditions")
        if status.get("data") is not None:
            causes += validate_json_object(status["data"], f"{field}.data", _DATA_LIMIT_BYTES)
        causes += _validate_network(status.get("networkData") or {}, f"{field}.networkData")
        if key in seen:
            causes.append(duplicate(field, shown))
        seen.add(key)
    return causes


def _validate_network(data: Object, field: str) -> list[Cause]:
    causes = []
    for name, limit_bytes in (("interfaceName", _INTERFACE_LIMIT_BYTES), ("hardwareAddress", _HARDWARE_LIMIT_BYTES)):
        if len((data.get(name) or "").encode()) > limit_bytes:
            causes.append(too_long(f"{field}.{name}", limit_bytes))
    return causes + validate_set(data.get("ips"), _MAX_ADDRESSES, _validate_interface_address, f"{field}.ips")


def _validate_interface_address(address: str, field: str) -> list[Cause]:
    try:
        if "/" in address and ipaddress.ip_interface(address):
            return []
    except ValueError:
        pass
    return [invalid_value(field, address, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")]
