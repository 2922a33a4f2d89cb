"""Role-based access control: bindings grant the rules of roles to subjects.

The rules of a user are cached until a role or binding changes (spec: opt.authorization-mode).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authn.service_account import account_user
from apiserver_stub.authz import NO_OPINION, AuthorizationResult, Rules, aggregate
from apiserver_stub.authz.rules import Rule, read_rules
from apiserver_stub.authz.store_index import IndexUpdater
from apiserver_stub.storage import Store
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

_MAX_CACHED_USERS = 4096
_MAX_CACHED_RESULTS = 2048
_MAX_CACHED_TEXT, _MAX_CACHED_USER_TEXT = 512, 4096
"""Characters of the attributes and of the user of cached results, as clients may send texts of any length."""
"""Per user; a result is cached per verb, resource and namespace, or per verb and path."""

Subject = tuple[str, str]
"""Kind and name; a service account is represented by its user name."""


class RbacNames(Struct, frozen=True):
    """API group and collections of roles and bindings."""

    group: str
    roles: str
    cluster_roles: str
    bindings: str
    cluster_bindings: str

    @classmethod
    def of(cls, identity: Identity) -> RbacNames:
        group = identity.group("rbac.authorization")
        plurals = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
        return cls(group, *(f"{group}/{plural}" for plural in plurals))

    @property
    def collections(self) -> tuple[str, str, str, str]:
        return self.roles, self.cluster_roles, self.bindings, self.cluster_bindings


class NoSuchRole(LookupError):
    """A binding refers to a missing role."""

    def __init__(self, plural: str, group: str, name: str) -> None:
        super().__init__(f'{plural.removesuffix("s")}.{group} "{name}" not found')
        self.plural, self.name = plural, name


class _Binding(Struct, frozen=True):
    kind: str
    name: str
    namespace: str
    role_kind: str
    role: str
    subjects: tuple[Subject, ...]
    shown: tuple[str, ...]
    """The subjects in the format of reasons."""

    def reason(self, subjects: set[Subject]) -> str:
        """Return the reason for an allowed request of one of *subjects*."""
        shown = next(text for subject, text in zip(self.subjects, self.shown, strict=True) if subject in subjects)
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        return f'RBAC: allowed by {self.kind} "{name}" of {self.role_kind} "{self.role}" to {shown}'


class _Grant(NamedTuple):
    rule: Rule
    result: AuthorizationResult


class _Rights:
    """Cluster-wide and namespaced grants of a user, with cached results."""

    def __init__(self) -> None:
        self.grants: dict[str, list[_Grant]] = {"": []}
        self.errors: dict[str, list[NoSuchRole]] = {"": []}
        self._results: dict[
            tuple[str, ...], tuple[list[tuple[frozenset[str], AuthorizationResult]], AuthorizationResult]
        ] = {}

    def authorize(self, info: RequestInfo) -> AuthorizationResult:
        if info.is_resource:
            attributes: tuple[str, ...] = (info.verb, info.group, info.resource, info.subresource, info.namespace)
        else:
            attributes = (info.verb, info.path)
        cached = self._results.get(attributes)
        if cached is None:
            cached = self._evaluate(info)
            if sum(map(len, attributes)) <= _MAX_CACHED_TEXT:
                if len(self._results) >= _MAX_CACHED_RESULTS:
                    self._results.clear()
                self._results[attributes] = cached
        for names, result in cached[0]:
            if not names or info.name in names:
                return result
        return cached[1]

    def of(self, namespace: str) -> Iterator[_Grant]:
        yield from self.grants[""]
        if namespace:
            yield from self.grants.get(namespace, ())

    def errors_of(self, namespace: str) -> list[NoSuchRole]:
        return self.errors[""] + (self.errors.get(namespace, []) if namespace else [])

    def _evaluate(
        self, info: RequestInfo
    ) -> tuple[list[tuple[frozenset[str], AuthorizationResult]], AuthorizationResult]:
        """Return the allowed object names (empty: all) with their result, and the result for all other names."""
        found = []
        for rule, result in self.of(info.namespace):
            if rule.concerns(info):
                names = frozenset(rule.names) if info.is_resource else frozenset()
                found.append((names, result))
                if not names:
                    break
        errors = self.errors_of(info.namespace)
        return found, AuthorizationResult(
            "no-opinion", f"RBAC: {aggregate(list(map(str, errors)))}"
        ) if errors else NO_OPINION


class RoleIndex:
    """Roles by name, bindings by subject, and cached grants of recent users."""

    def __init__(self, names: RbacNames) -> None:
        self._names = names
        self._roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self._bindings: dict[tuple[str, str], _Binding] = {}
        self._of_subject: dict[Subject, dict[tuple[str, str], None]] = {}
        self._rights: dict[tuple[str, tuple[str, ...]], _Rights] = {}

    def put(self, collection: str, key: str, obj: Object) -> None:
        self._rights.clear()
        if collection in (self._names.roles, self._names.cluster_roles):
            self._roles[collection, key] = read_rules(obj)
            return
        self._unbind(collection, key)
        binding = _read_binding(obj, of_cluster=collection == self._names.cluster_bindings)
        self._bindings[collection, key] = binding
        for subject in binding.subjects:
            self._of_subject.setdefault(subject, {})[collection, key] = None

    def remove(self, collection: str, key: str) -> None:
        self._rights.clear()
        self._roles.pop((collection, key), None)
        self._unbind(collection, key)

    def rules_of_role(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...]:
        """Return the rules of the role that a binding in *namespace* refers to.

        :raises NoSuchRole: the role is missing.
        """
        of_cluster = kind == "ClusterRole"
        found = self._roles.get(
            (self._names.cluster_roles, name) if of_cluster else (self._names.roles, f"{namespace}/{name}")
        )
        if found is None:
            raise NoSuchRole("clusterroles" if of_cluster else "roles", self._names.group, name)
        return found

    def rights(self, user: User) -> _Rights:
        """Return the grants of *user*."""
        key = (user.name, user.groups)
        found = self._rights.get(key)
        if found is None:
            found = self._collect(user)
            if len(user.name) + sum(map(len, user.groups)) <= _MAX_CACHED_USER_TEXT:
                if len(self._rights) >= _MAX_CACHED_USERS:
                    del self._rights[next(iter(self._rights))]
                self._rights[key] = found
        return found

    def _collect(self, user: User) -> _Rights:
        subjects = {("User", user.name), *(("Group", group) for group in user.groups)}
        keys = {key for subject in subjects for key in self._of_subject.get(subject, ())}
        rights = _Rights()
        for key in sorted(keys):
            binding = self._bindings[key]
            try:
                rules = self.rules_of_role(binding.role_kind, binding.role, binding.namespace)
            except NoSuchRole as error:
                rights.errors.setdefault(binding.namespace, []).append(error)
                continue
            result = AuthorizationResult("allow", binding.reason(subjects))
            grants = rights.grants.setdefault(binding.namespace, [])
            grants += [_Grant(rule, result) for rule in rules]
        return rights

    def _unbind(self, collection: str, key: str) -> None:
        binding = self._bindings.pop((collection, key), None)
        for subject in binding.subjects if binding is not None else ():
            keys = self._of_subject.get(subject, {})
            keys.pop((collection, key), None)
            if not keys:
                self._of_subject.pop(subject, None)


class Rbac:
    """Authorizer that allows requests by the roles bound to the user or its groups."""

    def __init__(self, store: Store, identity: Identity) -> None:
        self.names = RbacNames.of(identity)
        self._index = RoleIndex(self.names)
        self.follower = IndexUpdater(store, self.names.collections, self._index)

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        self.follower.catch_up()
        return self._index.rights(user).authorize(info)

    def held(self, user: User, namespace: str) -> tuple[list[Rule], list[NoSuchRole]]:
        """Return the rules that *user* holds in *namespace*, and the missing roles of its bindings."""
        self.follower.catch_up()
        rights = self._index.rights(user)
        return [grant.rule for grant in rights.of(namespace)], rights.errors_of(namespace)

    def rules_of_role(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...]:
        """Return the rules of the role that a binding in *namespace* refers to.

        :raises NoSuchRole: the role is missing.
        """
        self.follower.catch_up()
        return self._index.rules_of_role(kind, name, namespace)

    def rules(self, user: User, namespace: str) -> Rules:
        held, errors = self.held(user, namespace)
        found = Rules(errors=[str(error) for error in errors])
        for rule in held:
            if rule.resources:
                found.resources.append(Rule(rule.verbs, rule.groups, rule.resources, rule.names).write())
            if rule.paths:
                found.paths.append(Rule(rule.verbs, paths=rule.paths).write())
        return found


def _read_binding(obj: Object, *, of_cluster: bool) -> _Binding:
    metadata, role = obj["metadata"], obj["roleRef"]
    namespace = metadata.get("namespace") or ""
    subjects, shown = [], []
    for subject in obj.get("subjects") or ():
        kind, name = subject.get("kind") or "", subject.get("name") or ""
        if kind == "ServiceAccount":
            home = subject.get("namespace") or namespace
            if not home:
                continue
            subjects.append(("User", account_user(home, name, "").name))
            shown.append(f'{kind} "{name}/{home}"')
        else:
            subjects.append((kind, name))
            shown.append(f'{kind} "{name}"')
    kind = "ClusterRoleBinding" if of_cluster else "RoleBinding"
    return _Binding(kind, metadata["name"], namespace, role["kind"], role["name"], tuple(subjects), tuple(shown))
