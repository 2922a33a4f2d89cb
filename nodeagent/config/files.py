"""Configuration file reader: YAML or JSON with size limits, converted to plain values with native names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nodeagent.base import yamlsafe
from nodeagent.base.structs import Struct
from nodeagent.config import names
from nodeagent.config.codec import child
from nodeagent.config.tree import Origin
from nodeagent.errors import ConfigError, Problem

MAX_BYTES = 1024 * 1024
RELATIVE_PATHS = (
    ("staticPodPath",),
    ("authentication", "x509", "clientCAFile"),
    ("tlsCertFile",),
    ("tlsPrivateKeyFile",),
    ("resolvConf",),
    ("volumePluginDir",),
)
"""Fields whose paths are relative to the directory of the file that sets them."""

_CREDENTIAL_VERSIONS = ("v1alpha1", "v1beta1", "v1")


class UnreadableFile(ConfigError):
    """A file cannot be read, so its content cannot be validated."""


class Layer(Struct, frozen=True):
    """Values of one file by native name, without apiVersion and kind."""

    source: str
    kind: str
    """Native kind."""
    kubelet_format: bool
    """True if the file has the ``KubeletConfiguration`` format."""
    version: str
    """Version without group, such as ``v1beta1``."""
    value: dict[str, Any]
    lines: Mapping[str, int]
    """Line by field path."""

    def origin(self, path: str, kind: str = "file") -> Origin:
        """Return the origin of the value at *path*."""
        return Origin(kind, self.source, self.lines.get(path, 0), self.kubelet_format)


def read_layer(path: str, kinds: Sequence[str]) -> Layer:
    """Read one file whose kind must be one of *kinds* (native names).

    :raises UnreadableFile: the file is missing, unreadable or too large.
    :raises ConfigError: it is not valid YAML or JSON, not one object, or of another kind or version.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableFile([Problem(path, "", None, f"cannot be read: {error.strerror or error}")]) from error
    try:
        document = yamlsafe.load_document(data, yamlsafe.Limits(max_bytes=MAX_BYTES, max_values=100_000))
    except yamlsafe.YamlError as error:
        raise ConfigError([Problem(path, "", None, str(error))]) from error
    if not isinstance(document.value, dict):
        raise ConfigError([Problem(path, "", None, "must be one object")])
    kind, kubelet_format = _identify(path, document.value, kinds)
    value = _rename(document.value) if kind == names.NATIVE_KIND else dict(document.value)
    version = str(value.pop("apiVersion")).rpartition("/")[2]
    del value["kind"]
    table = names.KUBELET_FIELDS if kubelet_format else {}
    lines = {_text(_native_path(keys, table)): line for keys, line in document.lines.items() if keys}
    return Layer(path, kind, kubelet_format, version, value, lines)


def drop_ins(directory: str) -> Iterator[str]:
    """Yield every ``*.conf`` below *directory* in the order in which they apply.

    :raises UnreadableFile: it is not a readable directory.
    """
    try:
        next(Path(directory).iterdir(), None)
        match = [path for path in Path(directory).rglob("*.conf") if path.is_file()]
    except OSError as error:
        raise UnreadableFile([Problem(directory, "", None, f"cannot be read: {error.strerror or error}")]) from error
    yield from (str(path) for path in sorted(match, key=lambda path: path.parts))


def skipped_files(directory: str) -> list[str]:
    """Return the files below *directory* that are not drop-ins because of their name."""
    return sorted(str(path) for path in Path(directory).rglob("*") if path.is_file() and path.suffix != ".conf")


def resolve_paths(layer: Layer) -> None:
    """Replace relative paths in *layer* by absolute ones, based on the directory of its file."""
    directory = Path(layer.source).resolve().parent
    for *parents, last in RELATIVE_PATHS:
        target: Any = layer.value
        for key in parents:
            target = target.get(key) if isinstance(target, dict) else None
        text = target.get(last) if isinstance(target, dict) else None
        if isinstance(text, str) and text and not text.startswith("/"):
            target[last] = os.path.normpath(directory / text)


def kubelet_path(path: str) -> str:
    """Return the path of the field *path* in the ``KubeletConfiguration`` format."""
    first, dot, rest = path.partition(".")
    key, bracket, index = first.partition("[")
    return _TO_REFERENCE.get(key, key) + bracket + index + dot + rest


_TO_REFERENCE = {ours: theirs for theirs, ours in names.KUBELET_FIELDS.items()}


def _identify(path: str, value: Mapping[str, Any], kinds: Sequence[str]) -> tuple[str, bool]:
    """Return the native kind of a file and whether it has the ``KubeletConfiguration`` format."""
    known = {
        (version, kind_name): (kind, kubelet_format)
        for kind in kinds
        for kubelet_format in (False, True)
        for version in _versions(kind, kubelet_format)
        for kind_name in [names.KUBELET_KIND if kubelet_format and kind == names.NATIVE_KIND else kind]
    }
    version, kind = value.get("apiVersion"), value.get("kind")
    match = known.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if match:
        return match
    problems = []
    expected_kinds = sorted({kind_name for _, kind_name in known})
    if kind not in expected_kinds:
        rule = f"must be {' or '.join(expected_kinds)}"
        problems.append(Problem(path, "kind", kind, rule if kind else f"is missing; it {rule}"))
    expected = sorted({text for text, kind_name in known if kind_name == kind} or {text for text, _ in known})
    if version not in expected:
        rule = f"must be {' or '.join(expected)}"
        problems.append(Problem(path, "apiVersion", version, rule if version else f"is missing; it {rule}"))
    raise ConfigError(problems)


def _versions(kind: str, kubelet_format: bool) -> list[str]:
    native, other = names.native_version(), names.kubelet_version()
    groups = {other, f"kubelet.config.k8s.io/{names.VERSION}"} if kubelet_format else {native}
    if kind != names.CREDENTIAL_KIND:
        return sorted(groups)
    return sorted(f"{group.partition('/')[0]}/{version}" for group in groups for version in _CREDENTIAL_VERSIONS)


def _rename(raw: dict[str, Any]) -> dict[str, Any]:
    """Return *raw* with native names; only field names depend on the format, names in values do not."""
    kubelet_format = raw.get("kind") == names.KUBELET_KIND
    value = {(names.KUBELET_FIELDS.get(key, key) if kubelet_format else key): inner for key, inner in raw.items()}
    gates, entries = value.get("featureGates"), value.get("enforceNodeAllocatable")
    if isinstance(gates, dict):
        value["featureGates"] = {names.native_gate(name): on for name, on in gates.items()}
    if isinstance(entries, list):
        value["enforceNodeAllocatable"] = [
            names.ENFORCEMENTS.get(entry, entry) if isinstance(entry, str) else entry for entry in entries
        ]
    authentication = value.get("authentication")
    if isinstance(authentication, dict) and isinstance(authentication.get("x509"), dict):
        value["authentication"] = {**authentication, "x509": dict(authentication["x509"])}
    return value


def _native_path(keys: yamlsafe.Path, table: Mapping[str, str]) -> yamlsafe.Path:
    first, *rest = keys
    if first == "featureGates" and rest:
        rest[0] = names.native_gate(str(rest[0]))
    return (table.get(str(first), first), *rest)


def _text(keys: yamlsafe.Path) -> str:
    path = ""
    for key in keys:
        path = child(path, key)
    return path
