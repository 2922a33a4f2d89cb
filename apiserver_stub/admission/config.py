"""``--admission-control-config-file``: one file that names or holds the configuration of each plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base import identity, yamlsafe

KIND = "AdmissionConfiguration"
_VERSIONS = ("v1", "v1alpha1")


class AdmissionError(Exception):
    """The configuration of admission is no good; every problem is a line of the message."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(f"failed to apply admission: {problem}" for problem in problems))
        self.problems = problems


def load(path: Path | None) -> dict[str, Object]:
    """Return the configuration of each plugin that has one.

    :raises AdmissionError: a file cannot be read or is none such; all problems together.
    """
    if path is None:
        return {}
    found = _read(path)
    group = identity.current().group("apiserver.config")
    allowed = {f"{group}/{version}" for version in _VERSIONS}
    if found.get("kind") != KIND or found.get("apiVersion") not in allowed:
        kind, version = found.get("kind"), found.get("apiVersion")
        if not kind:
            raise AdmissionError(f"failed to read plugin config: Object 'Kind' is missing in '{path}'")
        raise AdmissionError(
            f'failed to read plugin config: "{path}": no kind "{kind}" is registered for version "{version}", '
            f"want {KIND} of {group}/{_VERSIONS[0]}"
        )
    problems: list[str] = []
    configs: dict[str, Object] = {}
    plugins = found.get("plugins") or []
    if not isinstance(plugins, list):
        raise AdmissionError(f'failed to read plugin config: "{path}": plugins must be a list')
    for index, item in enumerate(plugins):
        where = f'failed to read plugin config: "{path}": plugins[{index}]'
        if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
            problems.append(f"{where}.name: Required value")
            continue
        problems += [f'{where}: unknown field "{name}"' for name in item if name not in _ITEM]
        inside, beside = item.get("configuration"), item.get("path")
        if inside is not None and not isinstance(inside, dict):
            problems.append(f"{where}.configuration: must be an object")
        elif inside is not None:
            configs[item["name"]] = inside
        elif beside:
            try:
                configs[item["name"]] = _read(path.parent / str(beside))
            except AdmissionError as error:
                problems += error.problems
    if problems:
        raise AdmissionError(*problems)
    return configs


_ITEM = ("name", "path", "configuration")


def _read(path: Path) -> Object:
    try:
        found = yamlsafe.load(path.read_bytes())
    except OSError as error:
        raise AdmissionError(
            f'failed to read plugin config: unable to read admission control configuration from "{path}" '
            f"[{error.strerror}]"
        ) from error
    except yamlsafe.YamlError as error:
        raise AdmissionError(f'failed to read plugin config: "{path}": {error}') from error
    if not isinstance(found, dict):
        raise AdmissionError(f'failed to read plugin config: "{path}": is not an object')
    return found


def check_kind(config: Object, group: str, kind: str, versions: tuple[str, ...]) -> Iterator[str]:
    """Yield what is wrong with the head of a plugin's configuration; *group* is a full name."""
    given = (config.get("apiVersion"), config.get("kind"))
    if given[1] != kind or given[0] not in [f"{group}/{version}" for version in versions]:
        yield f'no kind "{given[1]}" is registered for version "{given[0]}", want {kind} of {group}/{versions[0]}'


def unknown_members(given: Any, shape: Any, path: str = "") -> Iterator[str]:
    """Yield the members of *given* that *shape* does not know, and those of another type.

    A shape is a value of the type that is meant: an object by its members, a list by one item, ``{"*": item}`` a map.
    """
    if given is None:
        return
    if isinstance(shape, dict):
        if not isinstance(given, dict):
            yield f"{path or '<root>'}: must be an object"
            return
        for name, value in given.items():
            inner = shape.get(name, shape.get("*", _UNKNOWN))
            place = f"{path}.{name}" if path else name
            if inner is _UNKNOWN:
                yield f'unknown field "{place}"'
            else:
                yield from unknown_members(value, inner, place)
    elif isinstance(shape, list):
        if not isinstance(given, list):
            yield f"{path}: must be a list"
            return
        for index, value in enumerate(given):
            yield from unknown_members(value, shape[0], f"{path}[{index}]")
    elif isinstance(shape, bool) != isinstance(given, bool) or not isinstance(given, type(shape)):
        wanted = {str: "text", int: "a whole number", bool: "true or false"}[type(shape)]
        yield f"{path}: must be {wanted}"


_UNKNOWN = object()
HEAD = {"apiVersion": "", "kind": ""}
