"""Validation of device classes, and of the device requests, constraints and configurations of resource claims.

Specifications have the structure of API version ``v1``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from apiserver_stub.cel import CelError
from apiserver_stub.cel.budget import CALL_LIMIT
from apiserver_stub.cel.devices import check_selector
from apiserver_stub.validation.device_names import (
    MAX_REQUESTS,
    RequestNames,
    request_names,
    validate_class_name,
    validate_driver_name,
    validate_fully_qualified_name,
    validate_label,
    validate_list,
    validate_request_references,
    validate_set,
)
from apiserver_stub.validation.labels import validate_label_name
from apiserver_stub.validation.quantities import is_extended
from nodeagent.base.identity import Identity
from nodeagent.base.names import label_value_problems
from nodeagent.base.structs import Struct

MAX_CONFIGURATIONS = 32
_MAX_SELECTORS, _MAX_CONSTRAINTS, _MAX_ALTERNATIVES, _MAX_TOLERATIONS = 32, 32, 8, 16
_EXPRESSION_LIMIT_BYTES = _PARAMETERS_LIMIT_BYTES = 10 << 10
_ALL, _EXACT_COUNT = "All", "ExactCount"
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")
_EITHER = "exactly one of `exactly` or `firstAvailable` is required"
_OMITTED = "<value omitted>"


class DeviceRules(Struct, frozen=True):
    """Settings of the validation."""

    identity: Identity
    consumable_capacity: bool = False
    """Devices may be shared, and constraints may require distinct attributes (spec: gate.DRAConsumableCapacity)."""


def validate_class(spec: Object, rules: DeviceRules, old: Object | None = None) -> list[Cause]:
    """Return the errors in the specification of a device class; unchanged expressions of *old* are not compiled."""
    stored = old is not None and spec.get("selectors") == old.get("selectors")
    causes = _validate_selectors(spec.get("selectors"), "spec.selectors", stored=stored)
    stored = old is not None and spec.get("config") == old.get("config")
    causes += validate_list(
        spec.get("config"), MAX_CONFIGURATIONS, partial(validate_configuration, stored=stored), "spec.config"
    )
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name, rules.identity.label_domain):
        causes.append(invalid_value("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return causes


def validate_devices(devices: Object, field: str, rules: DeviceRules) -> list[Cause]:
    """Return the errors in the devices that a claim requests."""
    names = request_names(devices)
    causes = validate_set(
        devices.get("requests"), MAX_REQUESTS, _validate_request, f"{field}.requests", lambda item: item.get("name")
    )
    causes += validate_list(
        devices.get("constraints"),
        _MAX_CONSTRAINTS,
        partial(_validate_constraint, requests=names, rules=rules),
        f"{field}.constraints",
    )

    def validate_config(config: Object, path: str) -> list[Cause]:
        found = validate_request_references(config.get("requests") or (), f"{path}.requests", names)
        return found + validate_configuration(config, path)

    return causes + validate_list(devices.get("config"), MAX_CONFIGURATIONS, validate_config, f"{field}.config")


def validate_configuration(config: Object, field: str, *, stored: bool = False) -> list[Cause]:
    """Return the errors in the configuration for a driver; the length of *stored* parameters is not limited."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{field}.opaque")]
    causes = validate_driver_name(opaque.get("driver") or "", f"{field}.opaque.driver")
    limit_bytes = None if stored else _PARAMETERS_LIMIT_BYTES
    return causes + validate_json_object(opaque.get("parameters"), f"{field}.opaque.parameters", limit_bytes)


def validate_json_object(value: Any, field: str, limit_bytes: int | None) -> list[Cause]:
    if value is None:
        return [required(field)]
    if limit_bytes is not None and len(objects.encode(value)) > limit_bytes:
        return [too_long(field, limit_bytes)]
    return [] if isinstance(value, dict) else [invalid_value(field, _OMITTED, "must be a valid JSON object")]


def validate_toleration(toleration: Object, field: str) -> list[Cause]:
    key, value = toleration.get("key") or "", toleration.get("value") or ""
    causes = validate_label_name(key, f"{field}.key") if key else []
    match toleration.get("operator") or "":
        case "Exists":
            if value:
                causes.append(invalid_value(f"{field}.value", value, "must be empty for operator `Exists`"))
        case "Equal":
            causes += invalid_each(f"{field}.value", value, label_value_problems(value))
        case "":
            causes.append(required(f"{field}.operator"))
        case operator:
            causes.append(not_supported(f"{field}.operator", operator, _OPERATORS))
    if (effect := toleration.get("effect")) and effect not in TAINT_EFFECTS:
        causes.append(not_supported(f"{field}.effect", effect, TAINT_EFFECTS))
    return causes


def _validate_request(request: Object, field: str) -> list[Cause]:
    causes = validate_label(request.get("name") or "", f"{field}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        return [*causes, invalid_value(field, None, f"{_EITHER}, but multiple fields are set")]
    if alternatives:
        path = f"{field}.firstAvailable"
        key = lambda item: item.get("name")  # noqa: E731
        return causes + validate_set(alternatives, _MAX_ALTERNATIVES, _validate_subrequest, path, key)
    if exactly is None:
        return [*causes, required(field, _EITHER)]
    return causes + _validate_exact(exactly, f"{field}.exactly")


def _validate_subrequest(request: Object, field: str) -> list[Cause]:
    return validate_label(request.get("name") or "", f"{field}.name") + _validate_exact(request, field)


def _validate_exact(request: Object, field: str) -> list[Cause]:
    causes = validate_class_name(request.get("deviceClassName") or "", f"{field}.deviceClassName")
    causes += _validate_selectors(request.get("selectors"), f"{field}.selectors")
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode == _ALL and count:
        causes.append(invalid_value(f"{field}.count", count, f"must not be specified when allocationMode is '{_ALL}'"))
    elif mode == _EXACT_COUNT and count <= 0:
        causes.append(invalid_value(f"{field}.count", count, "must be greater than zero"))
    elif mode not in (_ALL, _EXACT_COUNT):
        causes.append(not_supported(f"{field}.allocationMode", mode, (_ALL, _EXACT_COUNT)))
    tolerations = request.get("tolerations")
    return causes + validate_list(tolerations, _MAX_TOLERATIONS, validate_toleration, f"{field}.tolerations")


def _validate_selectors(selectors: Any, field: str, *, stored: bool = False) -> list[Cause]:
    return validate_list(selectors, _MAX_SELECTORS, partial(_validate_selector, stored=stored), field)


def _validate_selector(selector: Object, field: str, *, stored: bool) -> list[Cause]:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{field}.cel")]
    path, text = f"{field}.cel.expression", cel.get("expression") or ""
    if len(text.encode()) > _EXPRESSION_LIMIT_BYTES:
        return [too_long(path, _EXPRESSION_LIMIT_BYTES)]
    if stored:
        return []
    try:
        cost = check_selector(text)
    except CelError as error:
        return [invalid_value(path, text, str(error))]
    return [forbidden_value(path, "too complex, exceeds cost limit")] if cost > CALL_LIMIT else []


def _validate_constraint(constraint: Object, field: str, *, requests: RequestNames, rules: DeviceRules) -> list[Cause]:
    causes = validate_request_references(constraint.get("requests") or (), f"{field}.requests", requests)
    for name in ("matchAttribute", "distinctAttribute"):
        if (attribute := constraint.get(name)) is not None:
            return causes + validate_fully_qualified_name(attribute, f"{field}.{name}")
    if rules.consumable_capacity:
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        return [*causes, required(field, detail)]
    return [*causes, required(f"{field}.matchAttribute")]
