"""Flow schemas: rules that assign requests to a priority level and distinguish their flows. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import field

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from nodeagent.base.structs import Struct

SCHEMA_HEADER, LEVEL_HEADER = "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"
_ACCOUNT = "system:serviceaccount:"

Test = Callable[[User, RequestInfo], bool]


class FlowSchema(Struct, frozen=True):
    """A flow schema whose priority level exists."""

    name: str
    level: str
    matches: Test
    precedence: int = 0
    method: str = ""
    """Distinguisher method of flows: ``ByUser``, ``ByNamespace``, or empty for a single flow."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of responses, which identify the schema and the priority level."""

    def flow_of(self, user: User, info: RequestInfo) -> str:
        """Return the distinguisher of the flow of a request."""
        if self.method == "ByNamespace":
            return info.namespace
        return user.name if self.method == "ByUser" else ""


def read_schema(name: str, spec: Object, headers: Mapping[str, str]) -> FlowSchema:
    """Return the flow schema with the valid specification *spec*."""
    rules = [_rule(rule) for rule in spec.get("rules") or ()]

    def matches(user: User, info: RequestInfo) -> bool:
        return any(rule(user, info) for rule in rules)

    return FlowSchema(
        name,
        spec["priorityLevelConfiguration"]["name"],
        matches,
        spec.get("matchingPrecedence") or 0,
        (spec.get("distinguisherMethod") or {}).get("type") or "",
        headers,
    )


def _rule(rule: Object) -> Test:
    subjects = [_subject(subject) for subject in rule.get("subjects") or ()]
    resources = [_resources(item) for item in rule.get("resourceRules") or ()]
    paths = [_paths(item) for item in rule.get("nonResourceRules") or ()]

    def matches(user: User, info: RequestInfo) -> bool:
        if not any(subject(user) for subject in subjects):
            return False
        return any(test(info) for test in (resources if info.is_resource else paths))

    return matches


def _subject(subject: Object) -> Callable[[User], bool]:
    kind = subject.get("kind")
    if kind == "Group":
        group = (subject.get("group") or {}).get("name")
        return lambda user: group == "*" or group in user.groups
    if kind == "User":
        expected = (subject.get("user") or {}).get("name")
        return lambda user: expected in ("*", user.name)
    account = subject.get("serviceAccount") or {}
    prefix, name = f"{_ACCOUNT}{account.get('namespace')}:", account.get("name")
    if name == "*":
        return lambda user: user.name.startswith(prefix)
    return lambda user: user.name == f"{prefix}{name}"


def _resources(rule: Object) -> Callable[[RequestInfo], bool]:
    verbs, groups, resources = (_values(rule, name) for name in ("verbs", "apiGroups", "resources"))
    namespaces, cluster = _values(rule, "namespaces"), bool(rule.get("clusterScope"))

    def matches(info: RequestInfo) -> bool:
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        if not (_has(verbs, info.verb) and _has(resources, resource) and _has(groups, info.group)):
            return False
        return _has(namespaces, info.namespace) if info.namespace else cluster

    return matches


def _paths(rule: Object) -> Callable[[RequestInfo], bool]:
    verbs, urls = _values(rule, "verbs"), rule.get("nonResourceURLs") or ()
    prefixes = tuple(url.removesuffix("*").removesuffix("/") + "/" for url in urls)
    return lambda info: (
        _has(verbs, info.verb)
        and (
            "*" in urls or info.path in urls or info.path.startswith(prefixes)  # Below a path, with or without "/*".
        )
    )


def _values(rule: Object, name: str) -> frozenset[str] | None:
    """Return the values of a field of *rule*, ``None`` if every value matches."""
    values = rule.get(name) or ()
    return None if list(values) == ["*"] else frozenset(values)


def _has(values: Collection[str] | None, value: str) -> bool:
    return values is None or value in values
