"""Validation of CustomResourceDefinitions: names, scope and versions."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, not_supported, required
from apiserver_stub.validation.custom_resource_definitions.names import validate_names
from apiserver_stub.validation.custom_resource_definitions.stored_versions import validate_stored_versions
from nodeagent.base.names import service_name_problems, subdomain_problems

_SCOPES = ("Cluster", "Namespaced")
_IMMUTABLE = "field is immutable"


def definition_name_problems(name: str, definition: Object) -> list[str]:
    """Return why *name* is not the name of *definition*: its plural and its group."""
    spec = definition["spec"]
    problems = subdomain_problems(name)
    if name != f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}":
        problems = [*problems, 'must be spec.names.plural+"."+spec.group']
    return problems


def validate_definition(new: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in a definition; *old* is the stored one."""
    spec = new["spec"]
    causes = _validate_spec(spec)
    if old is not None:
        causes += _validate_unchanged(new, old)
    causes += validate_definition_status(new)
    return causes + validate_stored_versions(new)


def validate_definition_status(new: Object) -> list[Cause]:
    """Return the errors in the status of a definition."""
    return validate_names((new.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames")


def _validate_spec(spec: Object) -> list[Cause]:
    causes = _validate_group(spec.get("group") or "")
    scope = spec.get("scope") or ""
    if not scope:
        causes.append(required("spec.scope"))
    elif scope not in _SCOPES:
        causes.append(not_supported("spec.scope", scope, _SCOPES))
    causes += _validate_versions(spec.get("versions") or [])
    names = spec["names"]
    causes += [
        required(f"spec.names.{name}") for name in ("plural", "singular", "kind", "listKind") if not names.get(name)
    ]
    return causes + validate_names(names, "spec.names")


def _validate_group(group: str) -> list[Cause]:
    if not group:
        return [required("spec.group")]
    if problems := subdomain_problems(group):
        return [invalid_value("spec.group", group, ",".join(problems))]
    if "." not in group:
        return [invalid_value("spec.group", group, "should be a domain with at least one dot")]
    return []


def _validate_versions(versions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    for index, version in enumerate(versions):
        field, name = f"spec.versions[{index}]", version.get("name") or ""
        if problems := service_name_problems(name):
            causes.append(invalid_value(f"{field}.name", name, ",".join(problems)))
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            causes.append(required(f"{field}.schema.openAPIV3Schema", "schemas are required"))
    names = [version.get("name") for version in versions]
    if len(set(names)) < len(names):
        causes.append(invalid_value("spec.versions", versions, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(invalid_value("spec.versions", versions, text))
    return causes


def _validate_unchanged(new: Object, old: Object) -> list[Cause]:
    spec, before = new["spec"], old["spec"]
    causes: list[Cause] = []
    conditions = (old.get("status") or {}).get("conditions") or ()
    if any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions):
        causes += _immutable("spec.scope", spec.get("scope"), before.get("scope"))
        causes += _immutable("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind"))
    causes += _immutable("spec.group", spec.get("group"), before.get("group"))
    return causes + _immutable("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural"))


def _immutable(field: str, new: object, old: object) -> list[Cause]:
    return [invalid_value(field, new, _IMMUTABLE)] if new != old else []
