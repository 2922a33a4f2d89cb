"""Validation of the environment variables of containers."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, required
from apiserver_stub.validation.field_refs import VARIABLE_FIELDS, validate_field_ref, validate_resource_ref
from apiserver_stub.validation.names import prefix_problems
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.names import config_key_problems, subdomain_problems, variable_name_problems

_SEVERAL = "may not have more than one field specified at a time"


def validate_environment(variables: Sequence[Object], field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the variables of a container."""
    causes = []
    for index, variable in enumerate(variables):
        if name := variable.get("name"):
            if problems := variable_name_problems(name):
                causes += invalid_each(f"{field}[{index}].name", name, problems)
        else:
            causes.append(required(f"{field}[{index}].name"))
        if (source := variable.get("valueFrom")) is not None:
            causes += _validate_source(source, variable, f"{field}[{index}].valueFrom", options)
    return causes


def validate_environment_sources(sources: Sequence[Object], field: str) -> list[Cause]:
    """Return the errors in the objects that a container takes all variables from."""
    causes = []
    for index, source in enumerate(sources):
        path = f"{field}[{index}]"
        if prefix := source.get("prefix"):
            causes += invalid_each(f"{path}.prefix", prefix, variable_name_problems(prefix))
        found = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for ref in found:
            if name := source[ref].get("name"):
                causes += invalid_each(f"{path}.{ref}.name", name, prefix_problems(name, subdomain_problems))
            else:
                causes.append(required(f"{path}.{ref}.name"))
        if not found:
            causes.append(invalid_value(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(found) > 1:
            causes.append(invalid_value(field, "", _SEVERAL))
    return causes


def _validate_source(source: Object, variable: Object, field: str, options: PodOptions) -> list[Cause]:
    causes, sources = [], 0
    if (ref := source.get("fieldRef")) is not None:
        sources += 1
        causes += validate_field_ref(ref, f"{field}.fieldRef", VARIABLE_FIELDS, options)
    if (ref := source.get("resourceFieldRef")) is not None:
        sources += 1
        causes += validate_resource_ref(ref, f"{field}.resourceFieldRef", needs_container=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if (ref := source.get(name)) is not None:
            sources += 1
            causes += _validate_key_ref(ref, f"{field}.{name}")
    if not sources:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        causes.append(invalid_value(field, "", detail))
    elif variable.get("value"):
        causes.append(invalid_value(field, "", "may not be specified when `value` is not empty"))
    elif sources > 1:
        causes.append(invalid_value(field, "", _SEVERAL))
    return causes


def _validate_key_ref(ref: Object, field: str) -> list[Cause]:
    name, key = ref.get("name") or "", ref.get("key") or ""
    causes = invalid_each(f"{field}.name", name, subdomain_problems(name))
    if not key:
        return [*causes, required(f"{field}.key")]
    return causes + invalid_each(f"{field}.key", key, config_key_problems(key))
