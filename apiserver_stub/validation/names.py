"""Rules for names: DNS labels and subdomains, path segments, qualified names, label values, finalizers."""

from __future__ import annotations

import re

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
