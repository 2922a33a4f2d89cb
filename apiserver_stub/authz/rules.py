"""Policy rules of roles: match requests and detect privilege escalation. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo
from nodeagent.base.structs import Struct

_ALL = "*"


class Rule(Struct, frozen=True):
    """A policy rule; the order of its values is retained."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def read(cls, rule: Object) -> Rule:
        """Return the rule of a stored role."""
        members = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(rule.get(member) or ()) for member in members))

    def write(self) -> Object:
        """Return the rule in the format of stored roles, without empty fields."""
        members: list[tuple[str, tuple[str, ...]]] = [
            ("verbs", self.verbs),
            ("apiGroups", self.groups),
            ("resources", self.resources),
            ("resourceNames", self.names),
            ("nonResourceURLs", self.paths),
        ]
        return {name: list(values) for name, values in members if values or name == "verbs"}

    def concerns(self, info: RequestInfo) -> bool:
        """Return whether the rule allows *info*, without regard to the object name."""
        if info.verb not in self.verbs and _ALL not in self.verbs:
            return False
        if not info.is_resource:
            return any(_path_covers(path, info.path) for path in self.paths)
        if info.group not in self.groups and _ALL not in self.groups:
            return False
        return _resource_covered(self.resources, info.resource, info.subresource)

    def allows(self, info: RequestInfo) -> bool:
        return self.concerns(info) and (not self.names or not info.is_resource or info.name in self.names)

    def covers(self, small: Rule) -> bool:
        """Return whether the rule allows everything that *small* allows, which has at most one value per field."""
        return (
            _has(self.verbs, small.verbs)
            and _has(self.groups, small.groups)
            and all(_resource_covered(self.resources, *_split(resource)) for resource in small.resources)
            and (not self.names or (bool(small.names) and set(small.names) <= set(self.names)))
            and all(any(_path_covers(mine, path) for mine in self.paths) for path in small.paths)
        )

    def parts(self) -> Iterator[Rule]:
        """Yield equivalent rules with one value per field."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    if not self.names:
                        yield Rule((verb,), (group,), (resource,))
                    for name in self.names:
                        yield Rule((verb,), (group,), (resource,), (name,))
        for path in self.paths:
            for verb in self.verbs:
                yield Rule((verb,), paths=(path,))

    def __str__(self) -> str:
        members = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.paths),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        shown = ", ".join(f"{name}:{quoted(values)}" for name, values in members if values)
        return f"{{{shown}}}"


EVERYTHING = (Rule((_ALL,), (_ALL,), (_ALL,)), Rule((_ALL,), paths=(_ALL,)))


def read_rules(role: Object) -> tuple[Rule, ...]:
    """Return the rules of a stored role."""
    return tuple(Rule.read(rule) for rule in role.get("rules") or ())


def missing(held: Sequence[Rule], required: Iterable[Rule]) -> list[Rule]:
    """Return the parts of *required* that no rule of *held* covers; parts that differ only by verb are joined."""
    simple: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {}
    found = []
    for rule in required:
        for part in rule.parts():
            if any(mine.covers(part) for mine in held):
                continue
            if part.paths:
                found.append(part)
            else:
                key = (part.groups, part.resources, part.names)
                simple[key] = simple.get(key, ()) + part.verbs
    return found + [Rule(verbs, *key) for key, verbs in simple.items()]


def quoted(values: Iterable[str]) -> str:
    """Return *values* in the format of messages: ``["a" "b"]``."""
    texts = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    listed = " ".join(f'"{text}"' for text in texts)
    return f"[{listed}]"


def _has(mine: tuple[str, ...], required: tuple[str, ...]) -> bool:
    return _ALL in mine or all(value in mine for value in required)


def _split(resource: str) -> tuple[str, str]:
    name, _, subresource = resource.partition("/")
    return name, subresource


def _resource_covered(mine: tuple[str, ...], resource: str, subresource: str) -> bool:
    if _ALL in mine:
        return True
    if subresource:
        return f"{resource}/{subresource}" in mine or f"*/{subresource}" in mine
    return resource in mine


def _path_covers(mine: str, path: str) -> bool:
    return mine == path or (mine.endswith(_ALL) and path.startswith(mine.rstrip(_ALL)))
