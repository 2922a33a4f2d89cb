"""Conversion of a configuration file to the native format."""

from __future__ import annotations

from typing import Any

from nodeagent.base import identity
from nodeagent.config import names
from nodeagent.config.codec import decode
from nodeagent.config.files import Layer, read_layer
from nodeagent.config.tree import Tree
from nodeagent.config.unset import drop_unset, fill_dependent
from nodeagent.contracts.configuration import (
    ConfigStruct,
    CredentialProviderConfig,
    NodeAgentConfiguration,
    SerializedNodeConfigSource,
)
from nodeagent.errors import ConfigError, Problem

_TYPES: dict[str, type[ConfigStruct]] = {
    names.NATIVE_KIND: NodeAgentConfiguration,
    names.CREDENTIAL_KIND: CredentialProviderConfig,
    names.SOURCE_KIND: SerializedNodeConfigSource,
}
KINDS = tuple(_TYPES)


def convert(path: str) -> dict[str, Any]:
    """Return the values of a file by native name, with native apiVersion and kind, and without defaults.

    :raises ConfigError: the file has an unknown kind, unknown fields or wrong types.
    """
    layer = read_layer(path, KINDS)
    problems: list[Problem] = []
    decode(
        _TYPES[layer.kind],
        layer.value,
        lambda where, value, rule: problems.append(Problem(layer.origin(where).location, where, value, rule)),
    )
    if problems:
        raise ConfigError(problems)
    return {"apiVersion": _version(layer), "kind": layer.kind, **_values(layer)}


def _values(layer: Layer) -> dict[str, Any]:
    if layer.kind != names.NATIVE_KIND:
        return layer.value
    tree = Tree()
    tree.merge(layer.value, layer.origin)
    if layer.kubelet_format:
        drop_unset(tree, kubelet_format=True)
        fill_dependent(tree, kubelet_format=True)
    return {key: value for key, value in tree.value.items() if value != {} or key == "evictionHard"}


def _version(layer: Layer) -> str:
    """Return the native apiVersion; only credential provider files have several versions."""
    if layer.kind != names.CREDENTIAL_KIND:
        return names.native_version()
    return f"{identity.current().config_group}/{layer.version}"
