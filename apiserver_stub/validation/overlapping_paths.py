"""Warnings about files of one volume that overwrite each other. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import quote

_Path = tuple[str, str]
"""Path of a file in a volume, and its source; empty if all files of the volume have the same one."""


def overlap_warnings(volumes: Sequence[Object]) -> Iterator[str]:
    """Yield the warnings about overlapping paths, and about projections without a source."""
    for volume in volumes:
        name = quote(volume.get("name") or "")
        for kind, field, owner in _KINDS:
            source = volume.get(field)
            if source and (items := source.get("items")):
                description = f"{kind} {quote(source.get(owner) or '')}" if owner else kind
                for first, second in _overlaps(_paths(items, "")):
                    yield f"volume {name} ({description}): overlapping paths: {first} with {second}"
        if projected := volume.get("projected"):
            yield from _projection_warnings(projected.get("sources") or (), name)


def _projection_warnings(sources: Sequence[Object], name: str) -> Iterator[str]:
    paths: list[_Path] = []
    for source in sources:
        if any(content is not None for content in source.values()):
            found = list(_projected_paths(source))
            for first, second in _overlaps(found, paths):
                yield f"volume {name} (Projected): overlapping paths: {first} with {second}"
            paths += found
        else:
            yield f"volume {name} (Projected) has no sources provided"


_KINDS = (
    ("ConfigMap", "configMap", "name"),
    ("Secret", "secret", "secretName"),
    ("DownwardAPI", "downwardAPI", ""),
)
"""Kind of a source, its field in a volume, and the field with the name of the object."""
_CERTIFICATE_PATHS = (
    ("certificateChainPath", "PodCertificate chain"),
    ("keyPath", "PodCertificate key"),
    ("credentialBundlePath", "PodCertificate credential bundle"),
)


def _projected_paths(source: Object) -> Iterator[_Path]:
    for kind, field, owner in _KINDS:
        if (content := source.get(field)) and content.get("items"):
            yield from _paths(content["items"], f"{kind} {quote(content.get('name') or '')}" if owner else kind)
            return
    if (token := source.get("serviceAccountToken")) is not None:
        yield _trimmed(token.get("path")), "ServiceAccountToken"
    elif (bundle := source.get("clusterTrustBundle")) is not None:
        title = bundle["name"] if bundle.get("name") is not None else bundle.get("signerName") or ""
        yield _trimmed(bundle.get("path")), f"ClusterTrustBundle {quote(title)}"
    elif (certificate := source.get("podCertificate")) is not None:
        for field, title in _CERTIFICATE_PATHS:
            if path := certificate.get(field):
                yield _trimmed(path), title


def _paths(items: Iterable[Object], source: str) -> list[_Path]:
    return [(_trimmed(item.get("path")), source) for item in items]


def _trimmed(path: str | None) -> str:
    return (path or "").rstrip("/")


def _overlaps(paths: Iterable[_Path], earlier: Sequence[_Path] = ()) -> Iterator[tuple[str, str]]:
    """Yield each overlap of one of *paths* with a path before it or in *earlier*."""
    seen = list(earlier)
    for path, source in paths:
        for other, other_source in seen:
            if path and other and (f"{other}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other}/")):
                yield _shown(path, source), _shown(other, other_source)
        seen.append((path, source))


def _shown(path: str, source: str) -> str:
    return f"{quote(path)} ({source})" if source else quote(path)
