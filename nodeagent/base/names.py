"""Syntax of the names in API objects and settings: DNS names, qualified names, label values, ports and variables.

The wording is that of upstream's validation errors, which clients display. No I/O.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SEARCH_LABEL = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH_DOMAIN = rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*"
_SERVICE_NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VARIABLE = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"
_HEADER = r"[-A-Za-z0-9]+"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_label, _service_name, _subdomain, _wildcard, _name = (
    re.compile(pattern) for pattern in (_LABEL, _SERVICE_NAME, _SUBDOMAIN, _WILDCARD, _NAME)
)
_search_domain = re.compile(_SEARCH_DOMAIN)
_any_variable = re.compile(r"[ -<>-~]+")
_variable, _config_key, _header = (re.compile(pattern) for pattern in (_VARIABLE, _CONFIG_KEY, _HEADER))
_port_characters, _letter = re.compile("[-a-z0-9]+"), re.compile("[a-z]")

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
SEARCH_DOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SEARCH_DOMAIN}')"
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
WILDCARD_RULE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    f"regex used for validation is '{_WILDCARD}')"
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
ANY_VARIABLE_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
VARIABLE_RULE = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not "
    "start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is "
    f"'{_VARIABLE}')"
)
CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    f"'key-name', regex used for validation is '{_CONFIG_KEY}')"
)
HEADER_RULE = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    f"validation is '{_HEADER}')"
)


def subdomain_problems(value: str) -> list[str]:
    """Return why *value* is not a DNS subdomain."""
    if len(value) <= 253 and _subdomain.fullmatch(value):
        return []
    problems = _length_problems(value, 253)
    return problems if _subdomain.fullmatch(value) else [*problems, SUBDOMAIN_RULE]


def search_domain_problems(value: str) -> list[str]:
    """Return why *value* is not a search domain since Kubernetes 1.32: a DNS subdomain that may have underscores."""
    problems = _length_problems(value, 253)
    return problems if _search_domain.fullmatch(value) else [*problems, SEARCH_DOMAIN_RULE]


def label_problems(value: str) -> list[str]:
    """Return why *value* is not a DNS label."""
    problems = _length_problems(value, 63)
    if _label.fullmatch(value):
        return problems
    return [*problems, "must not contain dots" if _subdomain.fullmatch(value) else LABEL_RULE]


def service_name_problems(value: str) -> list[str]:
    """Return why *value* is not a DNS label that starts with a letter."""
    problems = _length_problems(value, 63)
    return problems if _service_name.fullmatch(value) else [*problems, SERVICE_NAME_RULE]


def wildcard_problems(value: str) -> list[str]:
    """Return why *value* is not a wildcard DNS name."""
    problems = _length_problems(value, 253)
    return problems if _wildcard.fullmatch(value) else [*problems, WILDCARD_RULE]


def qualified_name_problems(value: str) -> list[str]:
    """Return why *value* is not a ``[prefix/]name``."""
    prefix, slash, name = value.rpartition("/")
    valid_prefix = not slash or (len(prefix) <= 253 and _subdomain.fullmatch(prefix))
    if valid_prefix and len(name) <= 63 and _name.fullmatch(name):
        return []
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
    else:
        problems += [f"name part {problem}" for problem in _length_problems(name, 63)]
    if not _name.fullmatch(name):
        problems.append(NAME_RULE)
    return problems


def label_value_problems(value: str) -> list[str]:
    """Return why *value* cannot be the value of a label."""
    problems = _length_problems(value, 63)
    return problems if not value or _name.fullmatch(value) else [*problems, VALUE_RULE]


def port_name_problems(value: str) -> list[str]:
    """Return the reasons why *value* is not a valid port name (IANA service name)."""
    problems = _length_problems(value, 15)
    if not _port_characters.fullmatch(value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _letter.search(value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")  # wording: ok
    return problems


def variable_name_problems(value: str) -> list[str]:
    """Return the reasons why *value* is not a valid name of an environment variable."""
    return ([] if _variable.fullmatch(value) else [VARIABLE_RULE]) + _parent_problems(value)


def any_variable_name_problems(value: str) -> list[str]:
    """Return the reasons why *value* is not a valid name of an environment variable since Kubernetes 1.32."""
    return [] if _any_variable.fullmatch(value) else [ANY_VARIABLE_RULE]


def config_key_problems(value: str) -> list[str]:
    """Return the reasons why *value* is not a valid key of a ConfigMap or Secret."""
    problems = _length_problems(value, 253)
    if not _config_key.fullmatch(value):
        problems.append(CONFIG_KEY_RULE)
    return problems + _parent_problems(value)


def header_name_problems(value: str) -> list[str]:
    """Return the reasons why *value* is not a valid name of an HTTP header."""
    return [] if _header.fullmatch(value) else [HEADER_RULE]


def is_ip(text: str) -> bool:
    """Return whether *text* is an IP address, with or without a zone."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _parent_problems(value: str) -> list[str]:
    if not value.startswith("."):
        return []
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def _length_problems(value: str, limit_bytes: int) -> list[str]:
    if len(value) <= limit_bytes and (value.isascii() or len(value.encode()) <= limit_bytes):
        return []
    return [f"must be no more than {limit_bytes} characters"]
