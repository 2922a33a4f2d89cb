"""Matching of credentials to registries and repositories. No I/O."""

from __future__ import annotations

import fnmatch
from typing import Generic, TypeVar

T = TypeVar("T")

_DEFAULT_REGISTRY_KEY = "index.docker.io"
_DEFAULT_HOSTS = ("docker.io", "index.docker.io")


def registry_of(repository: str) -> str:
    """Return host and port of a complete repository name."""
    return repository.partition("/")[0]


def location_key(location: str) -> str:
    """Return *location*, a host, host and path, or URL, without scheme and API version."""
    host, path = _split(location)
    if path.startswith(("/v1/", "/v2/")):
        path = path[3:]
    return host + (path if path != "/" else "")


def matches(pattern: str, repository: str) -> bool:
    """Return whether *pattern* matches *repository*: equal ports, host parts as globs, path as a prefix."""
    (pattern_netloc, pattern_path), (netloc, path) = _split(pattern), _split(repository)
    pattern_host, pattern_port = _host_port(pattern_netloc)
    host, port = _host_port(netloc)
    if pattern_port != port or not path.startswith(pattern_path):
        return False
    pattern_parts, parts = pattern_host.split("."), host.split(".")
    return len(pattern_parts) == len(parts) and all(map(_glob, parts, pattern_parts))


class Keyring(Generic[T]):
    """Credentials by the registry or repository they are for."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[T]] = {}

    def add(self, location: str, credentials: T) -> None:
        """Add *credentials* for *location*: a host, host and path, or URL; parts of the host may be globs."""
        self._by_key.setdefault(location_key(location), []).append(credentials)

    def lookup(self, repository: str) -> list[T]:
        """Return the credentials for *repository*, those of the most specific location first."""
        found = [
            credentials
            for key in sorted(self._by_key, reverse=True)
            if matches(key, repository)
            for credentials in self._by_key[key]
        ]
        if not found and registry_of(repository) in _DEFAULT_HOSTS:
            found = list(self._by_key.get(_DEFAULT_REGISTRY_KEY, ()))
        return found


def _split(location: str) -> tuple[str, str]:
    """Return host with port, and path; a URL parser would interpret the brackets of a glob as an address."""
    host, slash, path = location.removeprefix("https://").removeprefix("http://").partition("/")
    return host, slash + path


def _host_port(netloc: str) -> tuple[str, str]:
    host, colon, port = netloc.rpartition(":")
    return (host, port) if colon and port.isdigit() else (netloc, "")


def _glob(text: str, pattern: str) -> bool:
    if pattern.count("[") != pattern.count("]"):
        return False  # A malformed pattern never matches.
    return text == pattern or fnmatch.fnmatchcase(text, pattern)  # An IPv6 address contains brackets.
