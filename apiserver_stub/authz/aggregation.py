"""Cluster roles that gather the rules of others by their labels."""

from __future__ import annotations

import contextlib
import logging

from apiserver_stub import objects
from apiserver_stub.authz.rbac import CLUSTER_ROLES
from apiserver_stub.objects import Object
from apiserver_stub.store import Keep, Outcome, Put, Record, Store, StoreRefused, StoreUnavailable
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.selectors import LabelSelector, Requirement

_log = logging.getLogger(__name__)

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_RETRY_SECONDS = 1.0


async def keep_aggregated(store: Store, *, clock: Clock | None = None) -> None:
    """Gather anew whenever a cluster role has changed; runs until cancelled."""
    collection, clock = store.collection(CLUSTER_ROLES), clock or SystemClock()
    position = collection.end
    while True:
        await collection.wait(position)
        position = collection.end
        try:
            await aggregate_roles(store)
        except (StoreUnavailable, StoreRefused) as error:
            _log.warning("Roles were not aggregated", extra={"err": error})
            await clock.sleep(_RETRY_SECONDS)
            position -= 1  # what was missed is still to be done


async def aggregate_roles(store: Store) -> None:
    """Give every gathering role the rules that it must have; as these may be gathered in turn, until all is at rest.

    :raises StoreUnavailable: a write could not be made durable.
    """
    collection = store.collection(CLUSTER_ROLES)
    roles: dict[str, Object] = {record.key: objects.decode(record.data) for record in collection.select()}
    gathering = [name for name, role in roles.items() if role.get("aggregationRule")]
    for _ in gathering:  # a chain of them cannot be longer
        changed = False
        for name in gathering:
            rules = _gathered(name, roles)
            if rules != (roles[name].get("rules") or []):
                roles[name] = {**roles[name], "rules": rules}
                await _write(store, name, rules)
                changed = True
        if not changed:
            break


def _gathered(name: str, roles: dict[str, Object]) -> list[Object]:
    selectors = [_selector(item) for item in roles[name]["aggregationRule"].get("clusterRoleSelectors") or ()]
    rules: list[Object] = []
    for other in sorted(roles):
        labels = roles[other]["metadata"].get("labels")
        if other != name and any(selector.matches(labels) for selector in selectors):
            rules += [rule for rule in roles[other].get("rules") or () if rule not in rules]
    return rules


async def _write(store: Store, name: str, rules: list[Object]) -> None:
    def decide(current: Record | None) -> Outcome:
        if current is None:
            raise _Gone
        role: Object = objects.decode(current.data)
        if not role.get("aggregationRule") or (role.get("rules") or []) == rules:
            return Keep()
        return Put(objects.encode_for_store({**role, "rules": rules}))

    with contextlib.suppress(_Gone):
        await store.update(CLUSTER_ROLES, name, decide)


class _Gone(Exception):
    """The role was deleted meanwhile."""


def _selector(selector: Object) -> LabelSelector:
    found = [Requirement(key, "in", frozenset([value])) for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        found.append(Requirement(term["key"], _OPERATORS[term["operator"]], frozenset(term.get("values") or ())))
    return LabelSelector(tuple(found))
