"""Validation of storage classes, and warnings about them."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from apiserver_stub.validation.labels import validate_label_name
from apiserver_stub.validation.node_labels import deprecation
from nodeagent.base.identity import Identity
from nodeagent.base.names import qualified_name_problems
from nodeagent.base.release import OLDEST, Release

_RECLAIM_POLICIES = ("Delete", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_PARAMETERS_LIMIT = 512
_PARAMETERS_LIMIT_BYTES = 256 << 10
_INVALID_CHANGES = Release(1, 36)
"""First release that reports changes of all immutable fields as invalid, not as forbidden."""

Terms = dict[str, set[str]]


def validate_storage_class(new: Object) -> list[Cause]:
    """Return the errors in a storage class."""
    provisioner = new.get("provisioner") or ""
    causes = [] if provisioner else [required("provisioner")]
    if provisioner:
        causes += invalid_each("provisioner", provisioner.lower(), qualified_name_problems(provisioner.lower()))
    causes += _validate_parameters(new.get("parameters") or {}, "parameters")
    policy, mode = new.get("reclaimPolicy"), new.get("volumeBindingMode")
    if policy and policy not in _RECLAIM_POLICIES:
        causes.append(not_supported("reclaimPolicy", policy, _RECLAIM_POLICIES))
    if mode not in _BINDING_MODES:
        causes.append(not_supported("volumeBindingMode", mode or "", _BINDING_MODES))
    return causes + _validate_topologies(new.get("allowedTopologies") or [], "allowedTopologies")


def validate_storage_class_update(new: Object, old: Object, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in the change of a storage class."""
    causes = []
    for name in ("parameters", "provisioner", "reclaimPolicy"):
        if (value := new.get(name)) != old.get(name) and (value or old.get(name)):
            if release >= _INVALID_CHANGES:
                causes.append(invalid_value(name, value, "field is immutable"))
            else:
                causes.append(forbidden_value(name, f"updates to {name} are forbidden."))
    mode = new.get("volumeBindingMode")
    if mode != old.get("volumeBindingMode"):
        causes.append(invalid_value("volumeBindingMode", mode, "field is immutable"))
    return causes


def validate_attributes_class(new: Object) -> list[Cause]:
    """Return the errors in a volume attributes class."""
    driver, parameters = new.get("driverName") or "", new.get("parameters") or {}
    causes = [] if driver else [required("driverName")]
    if driver:
        causes += invalid_each("driverName", driver.lower(), qualified_name_problems(driver.lower()))
    causes += _validate_parameters(parameters, "parameters")
    return causes if parameters else [*causes, required("parameters", "must contain at least one key/value pair")]


def validate_attributes_class_update(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the change of a volume attributes class, whose fields are immutable."""
    causes = []
    if new.get("driverName") != old.get("driverName"):
        causes.append(forbidden_value("driverName", "updates to driverName are forbidden."))
    if (new.get("parameters") or {}) != (old.get("parameters") or {}):
        causes.append(forbidden_value("parameters", "updates to parameters are forbidden."))
    return causes + validate_attributes_class(new)


def storage_class_warnings(new: Object, identity: Identity) -> list[str]:
    """Return the warnings about a storage class: deprecated labels of nodes."""
    return [
        f"allowedTopologies[{index}].matchLabelExpressions[{number}].key: {text}"
        for index, term in enumerate(new.get("allowedTopologies") or ())
        for number, expression in enumerate(term.get("matchLabelExpressions") or ())
        if (text := deprecation(expression.get("key") or "", identity))
    ]


def _validate_parameters(parameters: dict[str, str], field: str) -> list[Cause]:
    if len(parameters) > _PARAMETERS_LIMIT:
        return [too_long(field, _PARAMETERS_LIMIT)]
    causes = [invalid_value(field, "", "field can not be empty.")] if "" in parameters else []
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _PARAMETERS_LIMIT_BYTES:
        causes.append(too_long(field, _PARAMETERS_LIMIT_BYTES))
    return causes


def _validate_topologies(topologies: list[Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    # Upstream compares every term with as many empty ones as there are terms, too.
    seen: list[Terms] = [{} for _ in topologies]
    for index, topology in enumerate(topologies):
        path = f"{field}[{index}].matchLabelExpressions"
        terms: Terms = {}
        for number, expression in enumerate(topology.get("matchLabelExpressions") or ()):
            causes += _validate_term(expression, terms, f"{path}[{number}]")
        causes += [duplicate(path, "") for other in seen if other == terms]
        seen.append(terms)
    return causes


def _validate_term(expression: Object, terms: Terms, field: str) -> list[Cause]:
    key, values = expression.get("key") or "", expression.get("values") or []
    causes = [] if values else [required(f"{field}.values")]
    for index, value in enumerate(values):
        if value in values[:index]:
            causes.append(duplicate(f"{field}.values[{index}]", value))
    causes += validate_label_name(key, f"{field}.key")
    if key in terms:
        causes.append(duplicate(f"{field}.key", key))
    terms[key] = set(values)
    return causes
