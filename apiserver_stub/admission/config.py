"""Admission configuration (``--admission-control-config-file``): settings per plugin, inline or in separate files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base import yamlsafe
from nodeagent.base.identity import Identity

KIND = "AdmissionConfiguration"
_VERSIONS = ("v1", "v1alpha1")


class AdmissionError(Exception):
    """Invalid admission configuration; the message has one line per problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(f"failed to apply admission: {problem}" for problem in problems))
        self.problems = problems


def load(path: Path | None, identity: Identity) -> dict[str, Object]:
    """Return the configuration of each plugin that has one.

    :raises AdmissionError: a file cannot be read or is invalid; with all problems.
    """
    if path is None:
        return {}
    document = _read(path)
    group = identity.group("apiserver.config")
    allowed = {f"{group}/{version}" for version in _VERSIONS}
    if document.get("kind") != KIND or document.get("apiVersion") not in allowed:
        kind, version = document.get("kind"), document.get("apiVersion")
        if not kind:
            raise AdmissionError(f"failed to read plugin config: Object 'Kind' is missing in '{path}'")
        raise AdmissionError(
            f'failed to read plugin config: "{path}": no kind "{kind}" is registered for version "{version}", '
            f"expected {KIND} of {group}/{_VERSIONS[0]}"
        )
    problems: list[str] = []
    configs: dict[str, Object] = {}
    plugins = document.get("plugins") or []
    if not isinstance(plugins, list):
        raise AdmissionError(f'failed to read plugin config: "{path}": plugins must be a list')
    for index, item in enumerate(plugins):
        where = f'failed to read plugin config: "{path}": plugins[{index}]'
        if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
            problems.append(f"{where}.name: Required value")
            continue
        problems += [f'{where}: unknown field "{name}"' for name in item if name not in _ITEM]
        inline, file_path = item.get("configuration"), item.get("path")
        if inline is not None and not isinstance(inline, dict):
            problems.append(f"{where}.configuration: must be an object")
        elif inline is not None:
            configs[item["name"]] = inline
        elif file_path:
            try:
                configs[item["name"]] = _read(path.parent / str(file_path))
            except AdmissionError as error:
                problems += error.problems
    if problems:
        raise AdmissionError(*problems)
    return configs


_ITEM = ("name", "path", "configuration")


def _read(path: Path) -> Object:
    try:
        document = yamlsafe.load(path.read_bytes())
    except OSError as error:
        raise AdmissionError(
            f'failed to read plugin config: unable to read admission control configuration from "{path}" '
            f"[{error.strerror}]"
        ) from error
    except yamlsafe.YamlError as error:
        raise AdmissionError(f'failed to read plugin config: "{path}": {error}') from error
    if not isinstance(document, dict):
        raise AdmissionError(f'failed to read plugin config: "{path}": must be an object')
    return document


def check_kind(config: Object, group: str, kind: str, versions: tuple[str, ...]) -> Iterator[str]:
    """Yield an error unless *config* has *kind* and one of *versions*; *group* is the full name of the API group."""
    given = (config.get("apiVersion"), config.get("kind"))
    if given[1] != kind or given[0] not in [f"{group}/{version}" for version in versions]:
        yield f'no kind "{given[1]}" is registered for version "{given[0]}", expected {kind} of {group}/{versions[0]}'


def unknown_members(given: Any, shape: Any, path: str = "") -> Iterator[str]:
    """Yield an error for each field of *given* that *shape* lacks, and for each value of another type.

    A shape is an example value: an object with its fields, a list with one item, or ``{"*": item}`` for a map.
    """
    if given is None:
        return
    if isinstance(shape, dict):
        if not isinstance(given, dict):
            yield f"{path or '<root>'}: must be an object"
            return
        for name, value in given.items():
            inner = shape.get(name, shape.get("*", _UNKNOWN))
            field_path = f"{path}.{name}" if path else name
            if inner is _UNKNOWN:
                yield f'unknown field "{field_path}"'
            else:
                yield from unknown_members(value, inner, field_path)
    elif isinstance(shape, list):
        if not isinstance(given, list):
            yield f"{path}: must be a list"
            return
        for index, value in enumerate(given):
            yield from unknown_members(value, shape[0], f"{path}[{index}]")
    elif isinstance(shape, bool) != isinstance(given, bool) or not isinstance(given, type(shape)):
        expected = {str: "a string", int: "an integer", bool: "a boolean"}[type(shape)]
        yield f"{path}: must be {expected}"


_UNKNOWN = object()
HEAD = {"apiVersion": "", "kind": ""}
