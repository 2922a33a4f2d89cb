"""Rules that updates of a stored pod or pod template are exempt from, because the stored object breaks them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.validation.affinity import (
    affinity_terms,
    required_node_selector,
    validate_affinity_term_selectors,
    validate_node_label_values,
)
from apiserver_stub.validation.field_refs import HOST_IPS
from apiserver_stub.validation.file_paths import validate_local_path
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.pod_annotations import is_deletion_cost, keys
from apiserver_stub.validation.pod_features import features_in_use
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.quantities import is_huge_pages, is_whole_pages
from apiserver_stub.validation.sysctls import validate_host_sysctl


def options_for_update(options: PodOptions, metadata: Object, spec: Object) -> PodOptions:
    """Return *options* for an update of an object with the stored *metadata* and *spec*."""
    changes: dict[str, Any] = {}
    if not options.allow_host_ips and _uses_host_ips(spec):
        changes["allow_host_ips"] = True
    cost = (metadata.get("annotations") or {}).get(keys(options.identity).deletion_cost)
    if cost is not None and not is_deletion_cost(cost):
        changes["any_deletion_cost"] = True
    if any(validate_affinity_term_selectors(term, "", any_values=False) for term in _terms(spec)):
        changes["any_selector_values"] = True
    if (affinity := spec.get("affinity")) and validate_node_label_values(required_node_selector(affinity), ""):
        changes["any_node_values"] = True
    if any(validate_local_path(path, "") for path in _token_paths(spec)):
        changes["any_token_paths"] = True
    constraints = spec.get("topologySpreadConstraints") or ()
    if any(validate_selector(item.get("labelSelector"), "") for item in constraints):
        changes["any_spread_selectors"] = True
    if any(is_huge_pages(name) and not is_whole_pages(name, text) for name, text in _amounts(spec)):
        changes["any_huge_pages"] = True
    if (features := features_in_use(spec, options.features)) != options.features:
        changes["features"] = features
    network, ipc = bool(spec.get("hostNetwork")), bool(spec.get("hostIPC"))
    if network or ipc:
        sysctls = (spec.get("securityContext") or {}).get("sysctls") or ()
        names = [item.get("name") or "" for item in sysctls]
        if any(validate_host_sysctl(name, "", host_network=network, host_ipc=ipc) for name in names):
            changes["any_sysctls"] = True
    return replace(options, **changes) if changes else options


def _terms(spec: Object) -> list[Object]:
    affinity = spec.get("affinity")
    return affinity_terms(affinity) if affinity else []


def _token_paths(spec: Object) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if path := (source.get("serviceAccountToken") or {}).get("path"):
                yield path


def _amounts(spec: Object) -> Iterator[tuple[str, str]]:
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container.get("resources") or {}
            for amounts in ("limits", "requests"):
                yield from (resources.get(amounts) or {}).items()
    yield from (spec.get("overhead") or {}).items()


def _uses_host_ips(spec: Object) -> bool:
    sources = [
        item for volume in spec.get("volumes") or () for item in (volume.get("downwardAPI") or {}).get("items") or ()
    ]
    sources += [
        variable.get("valueFrom") or {}
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
        for variable in container.get("env") or ()
    ]
    return any((source.get("fieldRef") or {}).get("fieldPath") == HOST_IPS for source in sources)
