"""Request paths of API resources."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from nodeagent.base import identity
from nodeagent.contracts.api import Resource


def api_version(resource: Resource) -> str:
    """Return the API version of the objects of *resource*: ``v1``, ``events.k8s.io/v1``, ``apps/v1``."""
    group = _group(resource)
    return f"{group}/{resource.version}" if group else resource.version


def target(
    resource: Resource, namespace: str, name: str = "", subresource: str = "", query: Mapping[str, str] | None = None
) -> str:
    """Return path and query; without *namespace*, a namespaced resource is addressed in all namespaces."""
    version = api_version(resource)
    parts = ["/apis" if "/" in version else "/api", version]
    if resource.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    parts += [quote(part, safe="") for part in (name, subresource) if part]
    path = "/".join(parts)
    return f"{path}?{urlencode(query)}" if query else path


def _group(resource: Resource) -> str:
    if resource.bare_group or "." in resource.group:
        return resource.group
    return identity.current().group(resource.group)
