"""Validation of the environment variables of containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, not_found_value, required
from apiserver_stub.validation.field_refs import VARIABLE_FIELDS, validate_field_ref, validate_resource_ref
from apiserver_stub.validation.file_paths import validate_no_backsteps
from apiserver_stub.validation.names import prefix_problems
from apiserver_stub.validation.pod_containers import containers
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.names import (
    any_variable_name_problems,
    config_key_problems,
    label_problems,
    subdomain_problems,
    variable_name_problems,
)

_NONE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
_NONE_WITH_FILES = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_SEVERAL = "may not have more than one field specified at a time"


def validate_environment(variables: Sequence[Object], field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the variables of a container."""
    causes = []
    for index, variable in enumerate(variables):
        if name := variable.get("name"):
            if problems := _name_rule(options)(name):
                causes += invalid_each(f"{field}[{index}].name", name, problems)
        else:
            causes.append(required(f"{field}[{index}].name"))
        if (source := variable.get("valueFrom")) is not None:
            causes += _validate_source(source, variable, f"{field}[{index}].valueFrom", options)
    return causes


def validate_environment_sources(sources: Sequence[Object], field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the objects that a container takes all variables from."""
    causes = []
    for index, source in enumerate(sources):
        path = f"{field}[{index}]"
        if prefix := source.get("prefix"):
            causes += invalid_each(f"{path}.prefix", prefix, _name_rule(options)(prefix))
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


def validate_file_volumes(spec: Object, field: str) -> list[Cause]:
    """Return the errors in the volumes of the files that variables of the pod *spec* at *field* are read from."""
    volumes = {volume.get("name") or "": volume for volume in spec.get("volumes") or ()}
    causes = []
    for path, container in containers(spec, field):
        for index, variable in enumerate(container.get("env") or ()):
            if (ref := (variable.get("valueFrom") or {}).get("fileKeyRef")) is None:
                continue
            name, at = ref.get("volumeName") or "", f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                causes.append(not_found_value(at, name))
            elif volumes[name].get("emptyDir") is None:
                causes.append(invalid_value(at, name, "referenced volume must be of type emptyDir"))
    return causes


def _name_rule(options: PodOptions) -> Callable[[str], list[str]]:
    relaxed = "RelaxedEnvironmentVariableValidation" in options.features
    return any_variable_name_problems if relaxed else variable_name_problems


def _validate_file_ref(ref: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, problems_of in (("key", any_variable_name_problems), ("volumeName", label_problems)):
        if value := ref.get(name):
            causes += invalid_each(f"{field}.{name}", value, problems_of(value))
        else:
            causes.append(required(f"{field}.{name}"))
    if path := ref.get("path"):
        return causes + validate_no_backsteps(path, f"{field}.path")
    return [*causes, required(f"{field}.path")]


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
    reads_files = "EnvFiles" in options.features
    if reads_files and (ref := source.get("fileKeyRef")) is not None:
        sources += 1
        causes += _validate_file_ref(ref, f"{field}.fileKeyRef")
    if not sources:
        causes.append(invalid_value(field, "", _NONE_WITH_FILES if reads_files else _NONE))
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
