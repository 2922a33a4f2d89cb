"""Validation of the volumes of a static pod. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from nodeagent.base import identity
from nodeagent.base.names import label_problems, qualified_name_problems, subdomain_problems
from nodeagent.model import checks
from nodeagent.model.checks import Problems
from nodeagent.model.pod import (
    DownwardItem,
    KeyToPath,
    ObjectFieldSelector,
    QuantityText,
    ResourceFieldSelector,
    Volume,
    VolumeProjection,
)
from nodeagent.model.resources import quantity

_SOURCES = tuple((field.name, field.encode_name) for field in msgspec.structs.fields(Volume) if field.name != "name")
_PROJECTIONS = tuple((field.name, field.encode_name) for field in msgspec.structs.fields(VolumeProjection))
_HOST_PATH_TYPES = (
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)
_VOLUME_FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def check_volumes(problems: Problems, path: str, volumes: Sequence[Volume]) -> set[str]:
    """Check every volume; return their names."""
    names: set[str] = set()
    for i, volume in enumerate(volumes):
        at = f"{path}[{i}]"
        if problems.name(f"{at}.name", volume.name, label_problems) and volume.name in names:
            problems.add(f"{at}.name", volume.name, "is a duplicate")
        names.add(volume.name)
        given = [wire for name, wire in _SOURCES if getattr(volume, name) is not None]
        if len(given) > 1:
            problems.add(at, volume.name, f"must have one source, not {', '.join(given)}")
        elif given:
            _check_source(problems, at, volume)
        else:
            problems.add(at, volume.name, "must have a source that this agent supports")
    return names


def _check_source(problems: Problems, at: str, volume: Volume) -> None:
    if (empty := volume.empty_dir) is not None:
        check_quantity(problems, f"{at}.emptyDir.sizeLimit", empty.size_limit)
    if (host := volume.host_path) is not None:
        if problems.require(f"{at}.hostPath.path", host.path):
            problems.add(f"{at}.hostPath.path", host.path, checks.no_backsteps(host.path))
        problems.choice(f"{at}.hostPath.type", host.type, _HOST_PATH_TYPES)
    if (config_map := volume.config_map) is not None:
        problems.name(f"{at}.configMap.name", config_map.name, subdomain_problems)
        problems.between(f"{at}.configMap.defaultMode", config_map.default_mode, 0, 0o777)
        _check_items(problems, f"{at}.configMap.items", config_map.items)
    if (secret := volume.secret) is not None:
        problems.name(f"{at}.secret.secretName", secret.secret_name, subdomain_problems)
        problems.between(f"{at}.secret.defaultMode", secret.default_mode, 0, 0o777)
        _check_items(problems, f"{at}.secret.items", secret.items)
    if (downward := volume.downward_api) is not None:
        problems.between(f"{at}.downwardAPI.defaultMode", downward.default_mode, 0, 0o777)
        _check_downward(problems, f"{at}.downwardAPI.items", downward.items)
    if (projected := volume.projected) is not None:
        problems.between(f"{at}.projected.defaultMode", projected.default_mode, 0, 0o777)
        for i, source in enumerate(projected.sources or ()):
            _check_projection(problems, f"{at}.projected.sources[{i}]", source)
    if (flex := volume.flex_volume) is not None:
        problems.require(f"{at}.flexVolume.driver", flex.driver)
        names = identity.current()
        for key in flex.options or ():
            if f".{key.partition('/')[0].lower()}".endswith((f".{names.label_domain}", f".{names.api_domain}")):
                problems.add(f"{at}.flexVolume.options[{key}]", key, "is a reserved name")


def _check_projection(problems: Problems, at: str, source: VolumeProjection) -> None:
    problems.exactly_one(at, [wire for name, wire in _PROJECTIONS if getattr(source, name) is not None])
    for name, projected in (("secret", source.secret), ("configMap", source.config_map)):
        if projected is not None:
            problems.name(f"{at}.{name}.name", projected.name, subdomain_problems)
            _check_items(problems, f"{at}.{name}.items", projected.items)
    if source.downward_api is not None:
        _check_downward(problems, f"{at}.downwardAPI.items", source.downward_api.items)
    if (token := source.service_account_token) is not None:
        problems.add(f"{at}.serviceAccountToken.path", token.path, checks.relative_path(token.path))
        problems.between(f"{at}.serviceAccountToken.expirationSeconds", token.expiration_seconds, 600, 2**32)
    if source.cluster_trust_bundle is not None:
        problems.add(f"{at}.clusterTrustBundle", None, "needs an API server, which a pod of this source cannot rely on")


def _check_items(problems: Problems, at: str, items: Sequence[KeyToPath] | None) -> None:
    for i, item in enumerate(items or ()):
        problems.require(f"{at}[{i}].key", item.key)
        problems.add(f"{at}[{i}].path", item.path, _file_path(item.path))
        problems.between(f"{at}[{i}].mode", item.mode, 0, 0o777)


def _check_downward(problems: Problems, at: str, items: Sequence[DownwardItem] | None) -> None:
    for i, item in enumerate(items or ()):
        problems.add(f"{at}[{i}].path", item.path, _file_path(item.path))
        problems.between(f"{at}[{i}].mode", item.mode, 0, 0o777)
        given = {"fieldRef": item.field_ref, "resourceFieldRef": item.resource_field_ref}
        problems.exactly_one(f"{at}[{i}]", [name for name, value in given.items() if value is not None])
        if item.field_ref is not None:
            check_field(problems, f"{at}[{i}].fieldRef", item.field_ref, _VOLUME_FIELDS)
        if item.resource_field_ref is not None:
            problems.require(f"{at}[{i}].resourceFieldRef.containerName", item.resource_field_ref.container_name)
            check_resource_field(problems, f"{at}[{i}].resourceFieldRef", item.resource_field_ref)


def check_field(problems: Problems, at: str, selector: ObjectFieldSelector, known: Sequence[str]) -> None:
    """Check that a reference names a supported field of the pod, or a key of its labels or annotations."""
    path, bracket, key = selector.field_path.partition("[")
    if selector.api_version != "v1":
        problems.add(f"{at}.apiVersion", selector.api_version, "must be v1")
    if path not in known or (bracket and path not in ("metadata.labels", "metadata.annotations")):
        problems.add(f"{at}.fieldPath", selector.field_path, f"must be one of {', '.join(known)}")
    elif bracket:
        key = key.removesuffix("]").strip("'\"")
        problems.check(f"{at}.fieldPath", key, qualified_name_problems)


def check_resource_field(problems: Problems, at: str, selector: ResourceFieldSelector) -> None:
    """Check that a reference names a request or limit."""
    kind, _, name = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not (name in _RESOURCES or name.startswith("hugepages-")):
        problems.add(f"{at}.resource", selector.resource, f"must be limits. or requests. of {', '.join(_RESOURCES)}")
    check_quantity(problems, f"{at}.divisor", selector.divisor)


def check_quantity(problems: Problems, at: str, value: QuantityText | None) -> None:
    """Check that *value*, unless absent, is a quantity and not negative."""
    if value is None:
        return
    try:
        amount = quantity(value)
    except ValueError as error:
        problems.add(at, value, str(error))
        return
    if amount.nanos < 0:
        problems.add(at, value, "must not be negative")


def _file_path(path: str) -> str:
    """Return why *path* is not a valid path of a file in a volume, or the empty string."""
    return checks.relative_path(path) or ("must not start with '..'" if path.startswith("..") else "")
