"""Which registry or repository a credential is for: the rule of matching, and credentials sorted by it. Pure."""

from __future__ import annotations

import fnmatch
from typing import Generic, TypeVar

T = TypeVar("T")

_DEFAULT_REGISTRY_KEY = "index.docker.io"
_DEFAULT_HOSTS = ("docker.io", "index.docker.io")


def registry_of(repository: str) -> str:
    """Return host and port of a full repository name."""
    return repository.partition("/")[0]


def location_key(location: str) -> str:
    """Return what a *location* means: a host, host and path, or URL, without scheme and without API version."""
    host, path = _split(location)
    if path.startswith(("/v1/", "/v2/")):
        path = path[3:]
    return host + (path if path != "/" else "")


def matches(pattern: str, repository: str) -> bool:
    """Tell whether *pattern* covers *repository*: ports equal, host parts glob one by one, path is a prefix."""
    (wanted, wanted_path), (given, given_path) = _split(pattern), _split(repository)
    wanted_host, wanted_port = _host_port(wanted)
    given_host, given_port = _host_port(given)
    if wanted_port != given_port or not given_path.startswith(wanted_path):
        return False
    wanted_parts, given_parts = wanted_host.split("."), given_host.split(".")
    return len(wanted_parts) == len(given_parts) and all(map(_glob, given_parts, wanted_parts))


class Keyring(Generic[T]):
    """Credentials sorted by the registry or repository they are for."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[T]] = {}

    def add(self, location: str, credentials: T) -> None:
        """Add what opens *location*: a host, host and path, or URL, with globs in the host's parts."""
        self._by_key.setdefault(location_key(location), []).append(credentials)

    def lookup(self, repository: str) -> list[T]:
        """Return what may open *repository*, the most specific location first."""
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
    """Return host with port, and path; a library for URLs would take a glob's brackets for an address."""
    host, slash, path = location.removeprefix("https://").removeprefix("http://").partition("/")
    return host, slash + path


def _host_port(netloc: str) -> tuple[str, str]:
    host, colon, port = netloc.rpartition(":")
    return (host, port) if colon and port.isdigit() else (netloc, "")


def _glob(text: str, pattern: str) -> bool:
    if pattern.count("[") != pattern.count("]"):
        return False  # a malformed pattern never matches
    return text == pattern or fnmatch.fnmatchcase(text, pattern)  # equal: an IPv6 address has brackets of its own
