"""Discovery: lists of groups, versions and resources, plain and aggregated, and the version."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from apiserver_stub.aggregation.remotes import NOTHING, GroupVersion, Remotes
from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.media import Format
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import no_such_resource
from apiserver_stub.apimachinery.version import version
from apiserver_stub.schema.null_times import OMITTED_SINCE, unset_creation_time
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Registry, Resource, Subresource
    from nodeagent.base.gates import FeatureGates

_AGGREGATED = "APIGroupDiscoveryList"
_STABLE_SINCE = Release(1, 30)
_BETA, _STABLE = "v2beta1", "v2"


class DiscoverySettings(Struct, frozen=True):
    """Settings of discovery."""

    release: Release = OLDEST
    reported_version: str = ""
    """Git version at ``/version``; empty for that of the release."""
    aggregated: Sequence[str] = (_BETA,)
    """Versions of the one document of all groups; empty if it is not served."""
    storage_hashes: bool = True
    """Reports the ``storageVersionHash`` of resources (feature gate ``StorageVersionHash``)."""
    other_paths: Sequence[str] = ()
    """Paths of other documents."""


def aggregated_versions(gates: FeatureGates, release: Release) -> tuple[str, ...]:
    """Return the versions of the one document of all groups that *release* serves.

    spec: gate.AggregatedDiscoveryEndpoint
    """
    if not gates.enabled("AggregatedDiscoveryEndpoint"):
        return ()
    if release < _STABLE_SINCE:
        return (_BETA,)
    return (_STABLE,) if gates.enabled("AggregatedDiscoveryRemoveBetaType") else (_STABLE, _BETA)


class Discovery:
    """Groups, versions and resources, of this server and of the extension API servers.

    :param address: returns the ``host:port`` of this server.
    """

    read_only = True

    def __init__(
        self, registry: Registry, remotes: Remotes, address: Callable[[], str], settings: DiscoverySettings
    ) -> None:
        self._registry, self._remotes, self._address, self._settings = registry, remotes, address, settings

    async def respond(self, request: Request) -> Reply | None:
        """Return the document at a discovery path, ``None`` for other paths.

        :raises ApiError: 404, the group has no such version or document; 406, the document has none of the requested
            formats.
        """
        registry, path = self._registry, request.info.path
        served = self._remotes.merged(registry.group_versions())
        groups = list(dict.fromkeys(group for group, _ in served if group))
        if path in ("/api", "/apis"):
            if (requested := _aggregated_format(request, self._settings.aggregated)) is not None:
                return self._aggregated(request, served, [""] if path == "/api" else groups, *requested)
            if path == "/apis":
                return _document(
                    {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(served, g) for g in groups]}, request
                )
            address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address()}]
            return _document(
                {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address}, request
            )
        if path in ("/version", "/version/"):
            media.require_json(request.headers.get("Accept", ""))
            return _json(version(self._settings.reported_version, self._settings.release), request)
        if path == "/":
            return _json({"paths": _paths(served, groups, self._settings.other_paths)}, request)
        parts = path.strip("/").split("/")
        if parts[0] == "api" and parts[1:] == ["v1"]:
            return _document(self._resource_list("", "v1"), request)
        if parts[0] == "apis" and len(parts) == 2 and parts[1] in groups:
            return _document({"kind": "APIGroup", "apiVersion": "v1", **_group(served, parts[1])}, request)
        if parts[0] == "apis" and len(parts) == 3 and (parts[1], parts[2]) in registry.group_versions():
            return _document(self._resource_list(parts[1], parts[2]), request)
        if parts[0] == "api" or (parts[0] == "apis" and len(parts) > 1 and parts[1] in dict(registry.group_versions())):
            raise no_such_resource()
        return None

    def _resource_list(self, group: str, version: str) -> Object:
        registry, hashes = self._registry, self._settings.storage_hashes
        found: Object = {"kind": "APIResourceList"}
        if group:
            found["apiVersion"] = "v1"
        found["groupVersion"] = f"{group}/{version}" if group else version
        found["resources"] = [
            entry for resource in registry.of(group, version) for entry in _entries(resource, hashes=hashes)
        ]
        return found

    def _aggregated(
        self, request: Request, served: Sequence[GroupVersion], groups: list[str], format_: Format, document: str
    ) -> Reply:
        items = []
        for group in groups:
            metadata: Object = {"name": group} if group else {}
            versions = [self._version(group, version) for other, version in served if other == group]
            metadata |= unset_creation_time(shows_null=self._settings.release < OMITTED_SINCE)
            items.append({"metadata": metadata, "versions": versions})
        listing = {
            "kind": _AGGREGATED,
            "apiVersion": f"{request.identity.group('apidiscovery')}/{document}",
            "metadata": {},
            "items": items,
        }
        headers = {
            "Etag": f'"{hashlib.sha512(objects.encode(listing)).hexdigest().upper()}"',
            "Vary": "Accept",
            "Cache-Control": "public",
        }
        content_type, body = media.encode(format_, listing, request.identity.api_domain)
        group = request.identity.group("apidiscovery")
        content_type = f"{content_type};g={group};v={document};as={_AGGREGATED}"
        if request.headers.get("If-None-Match") == headers["Etag"]:
            return Reply(304, content_type=content_type, headers=headers)  # clients put it to the document they have
        return Reply(200, body=body, content_type=content_type, headers=headers)

    def _version(self, group: str, version: str) -> Object:
        if (group, version) not in self._remotes.table:
            resources = [_discovered(resource) for resource in self._registry.of(group, version)]
            return {"version": version, "resources": resources, "freshness": "Current"}
        known = self._remotes.discovered.get((group, version), NOTHING)
        found: Object = {"version": version}
        if known.resources:
            found["resources"] = known.resources
        return {**found, "freshness": "Current" if known.fresh else "Stale"}


def _json(obj: Object, request: Request) -> Reply:
    """Return *obj* as people read it: these documents have one form."""
    return Reply(200, body=media.encode(media.PRETTY, obj, request.identity.api_domain)[1])


def _document(obj: Object, request: Request) -> Reply:
    routed = not request.info.path.startswith("/apis") or request.info.path.count("/") > 2
    format_ = media.negotiate_document(request.headers.get("Accept", ""), request.identity, routed=routed)
    format_ = replace(format_, pretty=format_.pretty or request.format.pretty)
    content_type, body = media.encode(format_, obj, request.identity.api_domain)
    return Reply(200, body=body, content_type=content_type)


def _aggregated_format(request: Request, versions: Sequence[str]) -> tuple[Format, str] | None:
    """Return format and version of the one document of all groups if it is requested, ``None`` for the plain one."""
    types = media.object_types(request.identity)
    for kind, values in media.clauses(request.headers.get("Accept", "")):
        encoding = media.JSON if kind == "*/*" else kind
        if encoding not in types:
            continue
        if "as" not in values:
            return None
        group = request.identity.group("apidiscovery")
        document = values.get("v") or ""
        if (values["as"], values.get("g")) == (_AGGREGATED, group) and document in versions:
            return Format(encoding), document
    return None


def _group(served: Sequence[GroupVersion], group: str) -> Object:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for other, version in served if other == group
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _entries(resource: Resource, *, hashes: bool) -> list[Object]:
    main: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    if hashes and {"create", "list"}.issubset(resource.verbs):
        main["storageVersionHash"] = _storage_hash(resource)
    return [main, *(_sub_entry(resource, item) for item in resource.subresources)]


def _sub_entry(resource: Resource, subresource: Subresource) -> Object:
    entry: Object = {
        "name": f"{resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind or resource.kind,
        "verbs": sorted(subresource.verbs),
    }
    if subresource.group is not None:
        entry["group"], entry["version"] = subresource.group, subresource.version
    return entry


def _storage_hash(resource: Resource) -> str:
    group, _, version = resource.encoding_version.rpartition("/")
    digest = hashlib.sha256(f"{group}/{version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _discovered(resource: Resource) -> Object:
    found: Object = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.categories:
        found["categories"] = list(resource.categories)
    if resource.subresources:
        found["subresources"] = [
            {
                "subresource": item.name,
                "responseKind": {
                    "group": item.group or "",
                    "version": item.version or "",
                    "kind": item.kind or resource.kind,
                },
                "verbs": sorted(item.verbs),
            }
            for item in resource.subresources
        ]
    return found


def _paths(served: Sequence[GroupVersion], groups: list[str], others: Sequence[str]) -> list[str]:
    paths = [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/version",
        *others,
    ]
    paths += [f"/apis/{group}" for group in groups]
    paths += [f"/apis/{group}/{version}" for group, version in served if group]
    return sorted(paths)
