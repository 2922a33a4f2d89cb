"""Fixtures for authorization: collections in memory that change like a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authz.rbac import RbacNames
from apiserver_stub.storage import Keep, Outcome, Record
from apiserver_stub.storage.base import Remove
from apiserver_stub.storage.collection import Collection
from apiserver_stub.storage.record import Change, with_revision, without_revision
from nodeagent.base.identity import Identity

RBAC = RbacNames.of(Identity())


class Memory:
    """Store in memory, limited to the methods that authorizers use."""

    def __init__(self) -> None:
        self.writes = 0
        self._collections: dict[str, Collection] = {}

    def collection(self, name: str) -> Collection:
        return self._collections.setdefault(name, Collection(name, 0))

    def put(self, collection: str, obj: Object) -> None:
        metadata = obj["metadata"]
        full = {"kind": "X", "apiVersion": "v1", **obj}
        key = objects.key_of(metadata.get("namespace", ""), metadata["name"])
        self._publish(collection, key, objects.encode_for_store(full), removed=False)

    def remove(self, collection: str, key: str) -> None:
        record = self.collection(collection).get(key)
        assert record is not None
        self._publish(collection, key, without_revision(record.data), removed=True)

    def read(self, collection: str, key: str) -> Any:
        record = self.collection(collection).get(key)
        return None if record is None else objects.decode(record.data)

    def is_shared(self, name: str) -> bool:
        return False

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        outcome = decide(self.collection(name).get(key))
        if not isinstance(outcome, Keep):
            return self._publish(name, key, outcome.data, removed=isinstance(outcome, Remove))
        found = self.collection(name).get(key)
        if found is None:
            raise LookupError(key)
        return found

    def revision_of(self, name: str) -> int:
        return self.writes

    async def catch_up(self, name: str, revision: int = 0) -> bool:
        """Return immediately: there are no other writers."""
        return revision <= self.writes

    async def is_assigned(self, name: str, revision: int) -> bool:
        return revision <= self.writes

    # Objects of most tests.

    def role(self, name: str, *rules: Object, namespace: str = "", **metadata: Any) -> None:
        where = {"namespace": namespace} if namespace else {}
        collection = RBAC.roles if namespace else RBAC.cluster_roles
        self.put(collection, {"metadata": {"name": name, **where, **metadata}, "rules": list(rules)})

    def bind(self, name: str, role: str, *subjects: Object, namespace: str = "") -> None:
        kind, _, role_name = role.partition("/")
        where = {"namespace": namespace} if namespace else {}
        binding = {
            "metadata": {"name": name, **where},
            "roleRef": {"apiGroup": RBAC.group, "kind": kind, "name": role_name},
            "subjects": list(subjects),
        }
        self.put(RBAC.bindings if namespace else RBAC.cluster_bindings, binding)

    def _publish(self, name: str, key: str, data: bytes, *, removed: bool) -> Record:
        collection = self.collection(name)
        previous = collection.get(key)
        self.writes += 1
        record = Record(key, self.writes, with_revision(data, self.writes))
        kind = "DELETED" if removed else "ADDED" if previous is None else "MODIFIED"
        collection.publish([Change(kind, record, previous)])  # type: ignore[arg-type]
        return record


@pytest.fixture
def store() -> Any:
    return Memory()


ALICE = User("alice", groups=("dev", "system:authenticated"))


def rule(verbs: str, resources: str = "", *, group: str = "", names: str = "", paths: str = "") -> Object:
    """Return a rule; values are separated by commas."""
    if paths:
        return {"verbs": verbs.split(","), "nonResourceURLs": paths.split(",")}
    found = {"verbs": verbs.split(","), "apiGroups": [group], "resources": resources.split(",")}
    return {**found, "resourceNames": names.split(",")} if names else found


def user_subject(name: str) -> Object:
    return {"kind": "User", "apiGroup": RBAC.group, "name": name}


def group_subject(name: str) -> Object:
    return {"kind": "Group", "apiGroup": RBAC.group, "name": name}


def to(verb: str, resource: str, namespace: str = "", name: str = "", *, group: str = "") -> RequestInfo:
    """Return the attributes of a request for *resource*, with an optional subresource."""
    plural, _, subresource = resource.partition("/")
    return RequestInfo(verb, "", group, "v1", plural, subresource, namespace, name)
