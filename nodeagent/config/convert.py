"""Rewriting a configuration file in its native form."""

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
    """Return what a file says under our names, with the native apiVersion and kind; defaults are not written out.

    :raises ConfigError: the file is of no known kind, or holds unknown fields or wrong types.
    """
    layer = read_layer(path, KINDS)
    problems: list[Problem] = []
    decode(
        _TYPES[layer.kind],
        layer.value,
        lambda where, value, rule: problems.append(Problem(layer.origin(where).place, where, value, rule)),
    )
    if problems:
        raise ConfigError(problems)
    return {"apiVersion": _version(layer), "kind": layer.kind, **_values(layer)}


def _values(layer: Layer) -> dict[str, Any]:
    if layer.kind != names.NATIVE_KIND:
        return layer.value
    tree = Tree()
    tree.merge(layer.value, layer.origin)
    if layer.reference:
        drop_unset(tree, reference=True)
        fill_dependent(tree, reference=True)
    return {key: value for key, value in tree.value.items() if value != {} or key == "evictionHard"}


def _version(layer: Layer) -> str:
    """Credential provider files keep their version; everything else has only one."""
    if layer.kind != names.CREDENTIAL_KIND:
        return names.native_version()
    return f"{identity.current().config_group}/{layer.version}"
