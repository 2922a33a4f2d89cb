"""The default RBAC roles and bindings, created at the first start and reconciled at every later one.

Reconciliation adds missing rules and subjects and keeps additional ones. It skips objects with the annotation
``autoupdate: "false"``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.authz.bootstrap_roles import (
    AGGREGATED,
    BINDING_NAMES,
    BOUND,
    BOUND_BY_RELEASE,
    BY_RELEASE,
    CLUSTER_ROLES,
    GATED,
    GATHERED_BY,
    NAMESPACED,
    NAMESPACED_BOUND,
    UNTIL,
)
from apiserver_stub.authz.controller_roles import CONTROLLERS
from apiserver_stub.authz.rbac import RbacNames
from apiserver_stub.authz.rules import Rule, missing, read_rules
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.gates import FeatureGates
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_PLAIN_GROUPS = frozenset(["*", "apps", "autoscaling", "batch", "extensions", "policy"])
_NODE = "system:node"


async def ensure_bootstrap_policy(
    store: Store, identity: Identity, gates: FeatureGates | None = None, release: Release = OLDEST
) -> None:
    """Create missing default roles and bindings and reconcile the existing ones that can be read.

    :raises StoreUnavailable: a write could not be made durable.
    """
    autoupdate = _autoupdate(identity)
    objects_by_collection = _DefaultObjects(identity, gates, release).all()
    await asyncio.gather(*(_ensure(store, collection, obj, autoupdate) for collection, obj in objects_by_collection))


def node_rules(identity: Identity, gates: FeatureGates | None = None, release: Release = OLDEST) -> tuple[Rule, ...]:
    """Return the rules of nodes, before the node authorizer restricts them to objects of the requesting node."""
    defaults = _DefaultObjects(identity, gates, release)
    return tuple(defaults.rule(line) for line in defaults.lines(_NODE))


class _DefaultObjects:
    """The default roles and bindings with the names of *identity*."""

    def __init__(self, identity: Identity, gates: FeatureGates | None, release: Release) -> None:
        """Create the objects; without *gates*, roles have no rules that depend on feature gates."""
        self._identity, self._rbac = identity, RbacNames.of(identity)
        self._gates, self._release = gates, release
        self._aggregate = f"{self._rbac.group}/aggregate-to-"
        self._bootstrapping, self._autoupdate = identity.label("bootstrapping"), _autoupdate(identity)

    def all(self) -> Iterator[tuple[str, Object]]:
        """Yield each object with its collection."""
        for name in CLUSTER_ROLES:
            yield self._rbac.cluster_roles, self._role("ClusterRole", self._named(name), self.lines(name))
        for name, lines in AGGREGATED.items():
            label = {self._aggregate + name: "true"}
            yield (
                self._rbac.cluster_roles,
                self._role("ClusterRole", f"system:aggregate-to-{name}", self._extended(name, lines), labels=label),
            )
            part_of = GATHERED_BY[name]
            role = self._role("ClusterRole", name, (), labels={self._aggregate + part_of: "true"} if part_of else {})
            role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": label}]}
            yield self._rbac.cluster_roles, role
        for name, subjects in BOUND.items():
            yield self._rbac.cluster_bindings, self._binding("ClusterRoleBinding", "ClusterRole", name, subjects)
        for account, ungated in CONTROLLERS.items():
            name = f"system:controller:{account}"
            if not (lines := self._extended(name, ungated)):
                continue  # The controller belongs to a disabled feature.
            yield self._rbac.cluster_roles, self._role("ClusterRole", name, lines)
            yield (
                self._rbac.cluster_bindings,
                self._binding("ClusterRoleBinding", "ClusterRole", name, (f"ServiceAccount {account}",)),
            )
        for path, lines in NAMESPACED.items():
            namespace, _, name = self._named(path).partition("/")
            yield self._rbac.roles, self._role("Role", name, self._extended(path, lines), namespace=namespace)
        for path, subjects in NAMESPACED_BOUND.items():
            namespace, _, name = self._named(path).partition("/")
            bound = (*subjects, *self._since(BOUND_BY_RELEASE.get(path, {})))
            yield self._rbac.bindings, self._binding("RoleBinding", "Role", name, bound, namespace=namespace)

    def lines(self, name: str) -> tuple[str, ...]:
        """Return the rules of a cluster role, including those of later releases and of enabled feature gates."""
        return self._extended(name, CLUSTER_ROLES[name])

    def _extended(self, name: str, lines: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of *lines* that the release has, with those of later releases and of enabled feature gates."""
        removed = self._since(UNTIL.get(name, {}))
        more = list(self._since(BY_RELEASE.get(name, {})))
        gated = GATED.get(name, {}) if self._gates is not None else {}
        more += (line for gate, lines in gated.items() if self._gates and self._gates.enabled(gate) for line in lines)
        return (*(line for line in lines if line not in removed), *more)

    def _since(self, texts: Mapping[Release, tuple[str, ...]]) -> tuple[str, ...]:
        """Return the texts of the release and of earlier ones."""
        return tuple(text for release, found in texts.items() if self._release >= release for text in found)

    def _role(
        self, kind: str, name: str, lines: tuple[str, ...], *, namespace: str = "", labels: dict[str, str] | None = None
    ) -> Object:
        return {**self._head(kind, name, namespace, labels or {}), "rules": [self.rule(line).write() for line in lines]}

    def _binding(
        self, kind: str, role_kind: str, name: str, subjects: tuple[str, ...], *, namespace: str = ""
    ) -> Object:
        head = self._head(kind, BINDING_NAMES.get(name, name), namespace, {})
        reference = {"apiGroup": self._rbac.group, "kind": role_kind, "name": name}
        return {**head, "subjects": [self._subject(text) for text in subjects], "roleRef": reference}

    def _head(self, kind: str, name: str, namespace: str, labels: dict[str, str]) -> Object:
        metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
        metadata["labels"] = {self._bootstrapping: "rbac-defaults", **labels}
        metadata["annotations"] = {self._autoupdate: "true"}
        return {"kind": kind, "apiVersion": f"{self._rbac.group}/v1", "metadata": metadata}

    def _subject(self, text: str) -> Object:
        kind, _, name = text.partition(" ")
        if kind == "ServiceAccount":
            return {"kind": kind, "name": name, "namespace": self._identity.system_namespace}
        return {"kind": kind, "apiGroup": self._rbac.group, "name": name}

    def rule(self, line: str) -> Rule:
        """Return the rule that *line* of a role describes."""
        verbs, first, *rest = (tuple(word.split(",")) for word in line.split(" "))
        if not rest:
            return Rule(verbs, paths=first)
        names = tuple(self._named(name) for name in rest[1]) if len(rest) > 1 else ()
        return Rule(verbs, tuple(map(self._group, first)), rest[0], names)

    def _group(self, word: str) -> str:
        if word in _PLAIN_GROUPS:
            return word
        return "" if word == "core" else self._identity.group(word)

    def _named(self, text: str) -> str:
        if "{" not in text:
            return text
        names = self._identity
        return text.format(
            label=names.label_domain, system=names.system_namespace, certificates=names.group("certificates")
        )


def _autoupdate(identity: Identity) -> str:
    """Return the annotation that controls reconciliation."""
    return identity.label("autoupdate", "rbac.authorization")


async def _ensure(store: Store, collection: str, desired: Object, autoupdate: str) -> None:
    metadata = desired["metadata"]
    key = objects.key_of(metadata.get("namespace", ""), metadata["name"])
    found = store.collection(collection)
    if key in found.unreadable:
        return
    current = found.get(key)
    if current is not None and _completed(current, desired, autoupdate) is None:
        return

    def decide(current: Record | None) -> Outcome:
        if current is None:
            fresh = {"uid": objects.new_uid(), "creationTimestamp": objects.now()}
            return Put(objects.encode_for_store({**desired, "metadata": {**metadata, **fresh}}))
        completed = _completed(current, desired, autoupdate)
        return Keep() if completed is None else Put(objects.encode_for_store(completed))

    await store.update(collection, key, decide)


def _completed(current: Record, desired: Object, autoupdate: str) -> Object | None:
    """Return the stored object with the missing parts, or ``None`` if it is complete or opts out of reconciliation."""
    stored: Object = objects.decode(current.data)
    metadata = stored["metadata"]
    if (metadata.get("annotations") or {}).get(autoupdate) == "false":
        return None
    before = objects.encode(stored)
    for member in ("labels", "annotations"):
        metadata[member] = {**(metadata.get(member) or {}), **desired["metadata"][member]}
    if "roleRef" in desired:
        stored["roleRef"] = desired["roleRef"]
        subjects = stored.get("subjects") or []
        stored["subjects"] = subjects + [subject for subject in desired["subjects"] if subject not in subjects]
    else:
        lacking = missing(read_rules(stored), read_rules(desired))
        if lacking:
            stored["rules"] = (stored.get("rules") or []) + [rule.write() for rule in lacking]
    if "aggregationRule" in desired:
        selectors = (stored.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        more = [item for item in desired["aggregationRule"]["clusterRoleSelectors"] if item not in selectors]
        stored["aggregationRule"] = {"clusterRoleSelectors": selectors + more}
    return stored if objects.encode(stored) != before else None
