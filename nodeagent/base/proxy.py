"""Proxy selection for a server from the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

_PORTS = {"http": 80, "https": 443}


def proxy_problem(url: str) -> str:
    """Return the violated rule of the proxy address *url*, empty if it is valid."""
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return "must be an http or https URL"
    if parts.scheme in ("socks5", "socks5h"):
        return "is not supported: SOCKS proxies cannot be used"
    return "" if valid and parts.scheme in _PORTS else "must be an http or https URL"


def proxy_from_environment(server: str, environment: Mapping[str, str]) -> str:
    """Return the URL of the proxy for *server*, empty for a direct connection.

    Variables in upper case take precedence. Loopback addresses and localhost are always connected directly.
    """
    parts = urlsplit(server)
    names = ("HTTPS_PROXY", "https_proxy") if parts.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    proxy = _first(environment, names)
    if not proxy or _is_direct(parts, _first(environment, ("NO_PROXY", "no_proxy"))):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "").strip()


def _is_direct(server: SplitResult, exceptions: str) -> bool:
    host, port = (server.hostname or "").rstrip("."), server.port or _PORTS.get(server.scheme, 0)
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for text in exceptions.lower().split(","):
        entry = text.strip()
        if entry == "*" or (entry and _matches(entry, host, port)):
            return True
    return False


def _matches(entry: str, host: str, port: int) -> bool:
    """Return whether *entry* is the host, a parent domain, or a network that contains the address."""
    try:
        address, network = ip_address(host), ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass
    else:
        return address in network
    name, colon, entry_port = entry.rpartition(":")
    if colon and entry_port.isdigit():
        if int(entry_port) != port:
            return False
        entry = name.strip("[]")
    if entry.startswith("*."):
        entry = entry[1:]
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")
