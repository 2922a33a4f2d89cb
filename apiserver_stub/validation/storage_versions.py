"""Validation of StorageVersions."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, required
from nodeagent.base.names import qualified_name_problems, service_name_problems, subdomain_problems

_NO_COMMON_VERSION = (
    "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the "
    "supported versions yet"
)
_API_VERSION_RULE = (
    "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyVersion')"
)


def storage_version_name_problems(name: str) -> list[str]:
    """Return the reasons why *name* does not consist of a group and a resource."""
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    problems = [f"the group segment {problem}" for problem in subdomain_problems(group)]
    return problems + [f"the resource segment {problem}" for problem in service_name_problems(resource)]


def common_version(entries: Sequence[Object]) -> str | None:
    """Return the version in which all servers of *entries* encode objects, ``None`` if there is none."""
    versions = {entry.get("encodingVersion") or "" for entry in entries}
    return versions.pop() if len(versions) == 1 else None


def validate_storage_version_status(status: Object) -> list[Cause]:
    """Return the errors in the status of a StorageVersion."""
    entries, causes = status.get("storageVersions") or [], []
    for index, entry in enumerate(entries):
        causes += _validate_entry(entry, f"status.storageVersions[{index}]")
    return causes + _validate_common_version(entries, status) + _validate_conditions(status.get("conditions") or [])


def _validate_entry(entry: Object, field: str) -> list[Cause]:
    server, encoding = entry.get("apiServerID") or "", entry.get("encodingVersion") or ""
    decodable = entry.get("decodableVersions") or []
    causes = invalid_each(f"{field}.apiServerID", server, subdomain_problems(server))
    causes += _validate_version(encoding, f"{field}.encodingVersion")
    for index, version in enumerate(decodable):
        causes += _validate_version(version, f"{field}.decodableVersions[{index}]")
    for index, version in enumerate(entry.get("servedVersions") or []):
        path = f"{field}.servedVersions[{index}]"
        causes += _validate_version(version, path)
        if version not in decodable:
            listed = f"[{' '.join(decodable)}]"
            detail = f"individual served version : {version} must be included in decodableVersions : {listed}"
            causes.append(invalid_value(path, version, detail))
    if encoding not in decodable:
        detail = f"decodableVersions must include encodingVersion {encoding}"
        causes.append(invalid_value(f"{field}.decodableVersions", decodable, detail))
    return causes


def _validate_common_version(entries: Sequence[Object], status: Object) -> list[Cause]:
    common, reported = common_version(entries), status.get("commonEncodingVersion")
    if common == reported:
        return []
    if common is None:
        detail = _NO_COMMON_VERSION
    else:
        detail = f"the {'' if reported is None else 'actual '}common encoding version is {common}"
    return [invalid_value("status.commonEncodingVersion", reported, detail)]


def _validate_conditions(conditions: Sequence[Object]) -> list[Cause]:
    causes: list[Cause] = []
    seen: dict[str, int] = {}
    for index, condition in enumerate(conditions):
        field, type_ = f"status[{index}]", condition.get("type") or ""  # The path that upstream reports.
        if type_ in seen:
            detail = f"the type of the condition is not unique, it also appears in conditions[{seen[type_]}]"
            causes.append(invalid_value(f"{field}.type", type_, detail))
        seen[type_] = index
        causes += invalid_each(f"{field}.type", type_, qualified_name_problems(type_))
        causes += invalid_each(f"{field}.status", type_, qualified_name_problems(condition.get("status") or ""))
        causes += [
            required(f"{field}.{name}", f"{name} cannot be empty")
            for name in ("reason", "message")
            if not condition.get(name)
        ]
    return causes


def _validate_version(version: str, field: str) -> list[Cause]:
    problems = _version_problems(version)
    return [invalid_value(field, version, ",".join(problems))] if problems else []


def _version_problems(api_version: str) -> list[str]:
    group, slash, version = api_version.rpartition("/")
    if "/" in group:
        return [_API_VERSION_RULE]
    problems: list[str] = []
    if slash:
        problems += [f"group part: {problem}" for problem in _required(group) or subdomain_problems(group)]
    return problems + [f"version part: {problem}" for problem in _required(version) or service_name_problems(version)]


def _required(text: str) -> list[str]:
    return [] if text else ["must be non-empty"]
