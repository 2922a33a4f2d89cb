"""The default RBAC roles and bindings, created at the first start and reconciled at every later one.

Reconciliation adds missing rules and subjects and keeps additional ones. It skips objects with the annotation
``autoupdate: "false"``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.authz import rbac
from apiserver_stub.authz.bootstrap_roles import (
    AGGREGATED,
    BINDING_NAMES,
    BOUND,
    CLUSTER_ROLES,
    GATHERED_BY,
    NAMESPACED,
    NAMESPACED_BOUND,
)
from apiserver_stub.authz.controller_roles import CONTROLLERS
from apiserver_stub.authz.rules import Rule, missing, read_rules
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_AUTOUPDATE = identity.current().label("autoupdate", "rbac.authorization")
_BOOTSTRAPPING = identity.current().label("bootstrapping")
_AGGREGATE = f"{rbac.GROUP}/aggregate-to-"
_PLAIN_GROUPS = frozenset(["*", "apps", "autoscaling", "batch", "extensions", "policy"])
_NODE = "system:node"


async def ensure_bootstrap_policy(store: Store) -> None:
    """Create missing default roles and bindings and reconcile the existing ones.

    :raises StoreUnavailable: a write could not be made durable.
    """
    await asyncio.gather(*(_ensure(store, collection, obj) for collection, obj in _default_objects()))


def node_rules() -> tuple[Rule, ...]:
    """Return the rules of nodes, before the node authorizer restricts them to objects of the requesting node."""
    return tuple(_rule(line) for line in CLUSTER_ROLES[_NODE])


def _default_objects() -> Iterator[tuple[str, Object]]:
    for name, lines in CLUSTER_ROLES.items():
        yield rbac.CLUSTER_ROLES, _role("ClusterRole", _named(name), lines)
    for name, lines in AGGREGATED.items():
        label = {_AGGREGATE + name: "true"}
        yield rbac.CLUSTER_ROLES, _role("ClusterRole", f"system:aggregate-to-{name}", lines, labels=label)
        part_of = GATHERED_BY[name]
        role = _role("ClusterRole", name, (), labels={_AGGREGATE + part_of: "true"} if part_of else {})
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": label}]}
        yield rbac.CLUSTER_ROLES, role
    for name, subjects in BOUND.items():
        yield rbac.CLUSTER_BINDINGS, _binding("ClusterRoleBinding", "ClusterRole", name, subjects)
    for account, lines in CONTROLLERS.items():
        name = f"system:controller:{account}"
        yield rbac.CLUSTER_ROLES, _role("ClusterRole", name, lines)
        yield (
            rbac.CLUSTER_BINDINGS,
            _binding("ClusterRoleBinding", "ClusterRole", name, (f"ServiceAccount {account}",)),
        )
    for path, lines in NAMESPACED.items():
        namespace, _, name = _named(path).partition("/")
        yield rbac.ROLES, _role("Role", name, lines, namespace=namespace)
    for path, subjects in NAMESPACED_BOUND.items():
        namespace, _, name = _named(path).partition("/")
        yield rbac.BINDINGS, _binding("RoleBinding", "Role", name, subjects, namespace=namespace)


def _role(
    kind: str, name: str, lines: tuple[str, ...], *, namespace: str = "", labels: dict[str, str] | None = None
) -> Object:
    return {**_head(kind, name, namespace, labels or {}), "rules": [_rule(line).write() for line in lines]}


def _binding(kind: str, role_kind: str, name: str, subjects: tuple[str, ...], *, namespace: str = "") -> Object:
    head = _head(kind, BINDING_NAMES.get(name, name), namespace, {})
    reference = {"apiGroup": rbac.GROUP, "kind": role_kind, "name": name}
    return {**head, "subjects": [_subject(text) for text in subjects], "roleRef": reference}


def _head(kind: str, name: str, namespace: str, labels: dict[str, str]) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata["labels"] = {_BOOTSTRAPPING: "rbac-defaults", **labels}  # type: ignore[assignment]
    metadata["annotations"] = {_AUTOUPDATE: "true"}  # type: ignore[assignment]
    return {"kind": kind, "apiVersion": f"{rbac.GROUP}/v1", "metadata": metadata}


def _subject(text: str) -> Object:
    kind, _, name = text.partition(" ")
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": identity.current().system_namespace}
    return {"kind": kind, "apiGroup": rbac.GROUP, "name": name}


def _rule(line: str) -> Rule:
    verbs, first, *rest = (tuple(word.split(",")) for word in line.split(" "))
    if not rest:
        return Rule(verbs, paths=first)
    names = tuple(_named(name) for name in rest[1]) if len(rest) > 1 else ()
    return Rule(verbs, tuple(map(_group, first)), rest[0], names)


def _group(word: str) -> str:
    if word in _PLAIN_GROUPS:
        return word
    return "" if word == "core" else identity.current().group(word)


def _named(text: str) -> str:
    if "{" not in text:
        return text
    names = identity.current()
    return text.format(
        label=names.label_domain, system=names.system_namespace, certificates=names.group("certificates")
    )


async def _ensure(store: Store, collection: str, desired: Object) -> None:
    metadata = desired["metadata"]
    key = objects.key_of(metadata.get("namespace", ""), metadata["name"])
    current = store.collection(collection).get(key)
    if current is not None and _completed(current, desired) is None:
        return

    def decide(current: Record | None) -> Outcome:
        if current is None:
            fresh = {"uid": objects.new_uid(), "creationTimestamp": objects.now()}
            return Put(objects.encode_for_store({**desired, "metadata": {**metadata, **fresh}}))
        completed = _completed(current, desired)
        return Keep() if completed is None else Put(objects.encode_for_store(completed))

    await store.update(collection, key, decide)


def _completed(current: Record, desired: Object) -> Object | None:
    """Return the stored object with the missing parts, or ``None`` if it is complete or opts out of reconciliation."""
    stored: Object = objects.decode(current.data)
    metadata = stored["metadata"]
    if (metadata.get("annotations") or {}).get(_AUTOUPDATE) == "false":
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
