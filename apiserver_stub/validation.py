"""Rules that hold for every kind: names, labels, annotations, owners, finalizers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from apiserver_stub.objects import Object
from apiserver_stub.status import Cause, forbidden_value, invalid_value, required, too_long

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SERVICE_NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_label, _service_name, _subdomain, _name = (
    re.compile(pattern) for pattern in (_LABEL, _SERVICE_NAME, _SUBDOMAIN, _NAME)
)

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
SERVICE_NAME_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_SERVICE_NAME}')"
)
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
ANNOTATIONS_LIMIT_BYTES = 256 << 10
_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")
_STANDARD_FINALIZERS = frozenset(["kubernetes", "orphan", "foregroundDeletion"])


def subdomain_problems(value: str) -> list[str]:
    """Return why *value* is no DNS subdomain."""
    problems = [] if len(value) <= 253 else ["must be no more than 253 characters"]
    return problems if _subdomain.fullmatch(value) else [*problems, SUBDOMAIN_RULE]


def label_problems(value: str) -> list[str]:
    """Return why *value* is no DNS label."""
    problems = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    return problems if _label.fullmatch(value) else [*problems, LABEL_RULE]


def service_name_problems(value: str) -> list[str]:
    """Return why *value* is no DNS label that begins with a letter."""
    problems = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    return problems if _service_name.fullmatch(value) else [*problems, SERVICE_NAME_RULE]


def path_problems(value: str) -> list[str]:
    """Return why *value* cannot stand in a path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def qualified_name_problems(value: str) -> list[str]:
    """Return why *value* is no ``[prefix/]name``."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        rule = NAME_RULE.replace("name part", "a qualified name", 1)
        return [f"{rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in subdomain_problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 characters")
    if not _name.fullmatch(name):
        problems.append(NAME_RULE)
    return problems


def finalizer_problems(value: str) -> list[str]:
    """Return why *value* is no name of a finalizer."""
    problems = qualified_name_problems(value)
    if "/" not in value and value not in _STANDARD_FINALIZERS:
        problems.append("name is neither a standard finalizer name nor is it fully qualified")
    return problems


def label_value_problems(value: str) -> list[str]:
    """Return why *value* cannot be the value of a label."""
    problems = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    return problems if not value or _name.fullmatch(value) else [*problems, VALUE_RULE]


def validate_metadata(metadata: Object, problems_of: Callable[[str], list[str]] = subdomain_problems) -> list[Cause]:
    """Return what is wrong with the metadata of a new object or a changed one; *problems_of* judges names."""
    name = metadata.get("name") or ""
    causes = []
    if generate := metadata.get("generateName"):
        causes += [
            invalid_value("metadata.generateName", generate, problem)
            for problem in problems_of(generate.rstrip("-.") or generate)
        ]
    if name:
        causes += [invalid_value("metadata.name", name, problem) for problem in problems_of(name)]
    elif not generate:
        causes.append(required("metadata.name", "name or generateName is required"))
    causes += validate_labels(metadata.get("labels"), "metadata.labels")
    causes += _validate_annotations(metadata.get("annotations"))
    causes += _validate_owners(metadata.get("ownerReferences") or [])
    for index, finalizer in enumerate(metadata.get("finalizers") or []):
        field = f"metadata.finalizers[{index}]"
        causes += [invalid_value(field, finalizer, problem) for problem in finalizer_problems(finalizer)]
    return causes


def validate_labels(labels: Any, field: str) -> list[Cause]:
    """Return what is wrong with a map of labels."""
    causes = []
    for key, value in (labels or {}).items():
        causes += [invalid_value(field, key, problem) for problem in qualified_name_problems(key)]
        causes += [invalid_value(field, value, problem) for problem in label_value_problems(value)]
    return causes


def validate_selector(selector: Object, field: str) -> list[Cause]:
    """Return what is wrong with a selector of labels as objects hold it."""
    causes = validate_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        causes += _validate_expression(term, f"{field}.matchExpressions[{index}]")
    return causes


def _validate_expression(term: Object, where: str) -> list[Cause]:
    key, operator, values = term.get("key") or "", term.get("operator") or "", term.get("values") or []
    causes = []
    if operator in _WITH_VALUES and not values:
        causes.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in _WITHOUT_VALUES and values:
        detail = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(Cause("FieldValueForbidden", detail, f"{where}.values"))
    elif operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        causes.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
    causes += [invalid_value(f"{where}.key", key, problem) for problem in qualified_name_problems(key)]
    for index, value in enumerate(values):
        causes += [invalid_value(f"{where}.values[{index}]", value, item) for item in label_value_problems(value)]
    return causes


def validate_metadata_update(new: Object, old: Object, deletion: str | None = None) -> list[Cause]:
    """Return what is wrong with a change of metadata; *deletion* is when the client says that the object goes."""
    detail = "field is immutable"
    causes = [
        invalid_value(f"metadata.{name}", new.get(name), detail)
        for name in ("name", "namespace", "uid", "creationTimestamp")
        if new.get(name) != old.get(name)
    ]
    if deletion and deletion != old.get("deletionTimestamp"):
        shown = deletion.replace("T", " ").replace("Z", " +0000 UTC")
        causes.append(Cause("FieldValueInvalid", f"Invalid value: {shown}: {detail}", "metadata.deletionTimestamp"))
    if "deletionTimestamp" in old:
        causes += _validate_no_new_finalizers(new.get("finalizers") or [], old.get("finalizers") or [])
    return causes


def _validate_no_new_finalizers(new: list[str], old: list[str]) -> list[Cause]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [forbidden_value("metadata.finalizers", f"{detail}[]string{{{shown}}}")]


def _validate_annotations(annotations: Any) -> list[Cause]:
    causes, size = [], 0
    for key, value in (annotations or {}).items():
        causes += [invalid_value("metadata.annotations", key, text) for text in qualified_name_problems(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT_BYTES:
        causes.append(too_long("metadata.annotations", ANNOTATIONS_LIMIT_BYTES))
    return causes


def _validate_owners(owners: list[Object]) -> list[Cause]:
    return [
        invalid_value(f"metadata.ownerReferences.{name}", owner.get(name) or "", f"{text} must not be empty")
        for owner in owners
        for name, text in (("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid"))
        if not owner.get(name)
    ]
