"""Rules for names and small values, as sentence parts, and the list that problems are collected in. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable

from nodeagent.errors import Problem

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_PORT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_ENV = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_SYSCTL_SEGMENT = r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = re.compile(rf"({_SYSCTL_SEGMENT}[./])*{_SYSCTL_SEGMENT}", re.ASCII)

Rule = Callable[[str], str]
"""Returns the broken rule as a sentence part, or empty text."""


def dns_label(value: str) -> str:
    """RFC 1123 label: 63 characters."""
    if len(value) <= 63 and _LABEL.fullmatch(value):
        return ""
    return "must be at most 63 lower case letters, digits or '-', beginning and ending with a letter or digit"


def dns_subdomain(value: str) -> str:
    """RFC 1123 subdomain: 253 characters."""
    if len(value) <= 253 and _SUBDOMAIN.fullmatch(value):
        return ""
    return (
        "must be at most 253 lower case letters, digits, '-' or '.', each part beginning and ending with a letter "
        "or digit"
    )


def qualified_name(value: str) -> str:
    """A label or annotation key: ``name`` or ``prefix/name``."""
    prefix, slash, name = value.rpartition("/")
    if slash and (not prefix or dns_subdomain(prefix)):
        return "must have a DNS subdomain before its '/'"
    if len(name) <= 63 and _QUALIFIED.fullmatch(name):
        return ""
    return "must be at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"


def label_value(value: str) -> str:
    """The value of a label, which may be empty."""
    if not value or (len(value) <= 63 and _QUALIFIED.fullmatch(value)):
        return ""
    return "must be empty or at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"


def port_name(value: str) -> str:
    """The name of a port: 15 characters with a letter among them."""
    if len(value) <= 15 and _PORT.fullmatch(value) and "--" not in value and any(c.isalpha() for c in value):
        return ""
    return "must be at most 15 lower case letters, digits or single '-', with at least one letter"


def env_name(value: str) -> str:
    """The name of an environment variable."""
    if _ENV.fullmatch(value) and value != "." and not value.startswith(".."):
        return ""
    return "must consist of letters, digits, '_', '-' or '.', and not begin with a digit"


def config_key(value: str) -> str:
    """A key of a config map or secret."""
    if len(value) <= 253 and _CONFIG_KEY.fullmatch(value) and value != "." and not value.startswith(".."):
        return ""
    return "must be at most 253 letters, digits, '-', '_' or '.'"


def header_name(value: str) -> str:
    """The name of an HTTP header."""
    return "" if _HEADER.fullmatch(value) else "must consist of letters, digits or '-'"


def sysctl_name(value: str) -> str:
    """The name of a kernel parameter, its parts joined by ``.`` or ``/``."""
    if len(value) <= 253 and _SYSCTL.fullmatch(value):
        return ""
    return "must be at most 253 lower case letters, digits, '-' or '_' in parts joined by '.' or '/'"


def ip_address(value: str) -> str:
    """An IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return "must be an IPv4 or IPv6 address"
    return ""


def relative_path(value: str) -> str:
    """A path that stays below the directory it is taken from."""
    if not value:
        return "is required"
    if value.startswith("/"):
        return "must be a relative path"
    return no_backsteps(value)


def no_backsteps(value: str) -> str:
    """A path without ``..``."""
    return "must not contain '..'" if ".." in value.split("/") else ""


class Problems:
    """Collects what is wrong with one piece of input, by field path."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.found: list[Problem] = []

    def add(self, path: str, value: object, rule: str) -> None:
        """Note a problem unless *rule* is empty."""
        if rule:
            self.found.append(Problem(self._source, path, value, rule))

    def require(self, path: str, value: object) -> bool:
        """Note that *value* is missing when it is empty; return whether it is there."""
        if value in ("", None):
            self.add(path, None, "is required")
            return False
        return True

    def name(self, path: str, value: str, rule: Rule) -> bool:
        """Check a required name; return whether it is good."""
        if not self.require(path, value):
            return False
        broken = rule(value)
        self.add(path, value, broken)
        return not broken

    def optional(self, path: str, value: str | None, rule: Rule) -> None:
        """Check *value* unless it is empty."""
        if value:
            self.add(path, value, rule(value))

    def choice(self, path: str, value: str | None, choices: Iterable[str]) -> None:
        """Check that *value*, unless empty, is one of *choices*."""
        allowed = tuple(choices)
        if value and value not in allowed:
            self.add(path, value, f"must be one of {', '.join(allowed)}")

    def between(self, path: str, value: int | None, low: int, high: int) -> None:
        """Check that *value*, unless absent, lies in a range."""
        if value is not None and not low <= value <= high:
            self.add(path, value, f"must be between {low} and {high}")

    def at_least(self, path: str, value: int | None, low: int) -> None:
        """Check that *value*, unless absent, is not below *low*."""
        if value is not None and value < low:
            self.add(path, value, "must not be negative" if low == 0 else f"must be at least {low}")

    def exactly_one(self, path: str, given: Iterable[str]) -> None:
        """Check that one of several alternatives is given."""
        names = list(given)
        if not names:
            self.add(path, None, "must say what it takes its value from: nothing is given")
        elif len(names) > 1:
            self.add(path, None, f"must have one of {', '.join(names)}, not several")
