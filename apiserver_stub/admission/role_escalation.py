"""RBAC escalation check: users grant only permissions they hold, unless authorized to ``escalate`` or ``bind``."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import forbidden, not_found, quote
from apiserver_stub.authz import SUPERUSERS, Chain
from apiserver_stub.authz.rbac import NoSuchRole, Rbac
from apiserver_stub.authz.rules import EVERYTHING, Rule, missing, quoted, read_rules
from apiserver_stub.verbs.admission import AdmissionRequest

_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles"}
_GC_FIELDS = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class RoleEscalation(AdmissionPlugin):
    """Compare the permissions that a role or binding grants with those of the user who writes it."""

    name = "RoleEscalation"

    def __init__(self, rbac: Rbac, authorizer: Chain) -> None:
        self._rbac, self._authorizer = rbac, authorizer
        self._group = rbac.names.group
        self.resources = {_label(storage) for storage in rbac.names.collections}

    async def validate(self, call: AdmissionRequest) -> None:
        """Reject grants of permissions that the user does not hold; runs on the final object.

        :raises ApiError: 403, a permission is not held; 404, the role of a binding does not exist.
        """
        if SUPERUSERS in call.request.user.groups:
            return
        if call.old is not None and _without_gc_fields(call.obj) == _without_gc_fields(call.old):
            return  # The garbage collector updates these fields without holding the granted permissions.
        if call.resource.kind in _PLURALS:
            await self._check_role(call)
        else:
            await self._check_binding(call)

    async def _check_role(self, call: AdmissionRequest) -> None:
        info, plural, user = call.request.info, call.resource.plural, call.request.user
        if await self._is_allowed(
            user, RequestInfo("escalate", "", self._group, "*", plural, "", info.namespace, info.name)
        ):
            return
        if problem := self._not_held(user, info.namespace, read_rules(call.obj)):
            raise forbidden(self._group, plural, call.name, problem)
        aggregates = any(dig(role, ("aggregationRule", "clusterRoleSelectors")) for role in (call.obj, call.old))
        if aggregates and self._not_held(user, info.namespace, EVERYTHING):
            text = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(self._group, plural, call.name, text)

    async def _check_binding(self, call: AdmissionRequest) -> None:
        user, namespace, role = call.request.user, call.request.info.namespace, call.obj.get("roleRef") or {}
        group, kind, name = (role.get(field) or "" for field in ("apiGroup", "kind", "name"))
        plural = _PLURALS.get(kind)
        if plural is None:
            return  # Rejected by the validation of the kind.
        if await self._is_allowed(user, RequestInfo("bind", "", group, "*", plural, "", namespace, name)):
            return
        try:
            rules = self._rbac.rules_of_role(kind, name, namespace)
        except NoSuchRole as error:
            raise not_found(self._group, error.plural, error.name) from None
        if problem := self._not_held(user, namespace, rules):
            raise forbidden(self._group, call.resource.plural, call.name, problem)

    async def _is_allowed(self, user: User, info: RequestInfo) -> bool:
        return (await self._authorizer.authorize(user, info)).allowed

    def _not_held(self, user: User, namespace: str, rules: Iterable[Rule]) -> str:
        """Return an error text that lists the *rules* that *user* does not hold; empty if all are held."""
        held, errors = self._rbac.held(user, namespace)
        lacking = missing(held, rules)
        if not lacking:
            return ""
        lines = "\n".join(sorted({str(rule) for rule in lacking}))
        text = f"user {quote(user.name)} (groups={quoted(user.groups)}) is attempting to grant RBAC permissions not "
        text += f"currently held:\n{lines}"
        if not errors:
            return text
        unresolved = dict.fromkeys(f'{error.plural}.{self._group} "{error.name}" not found' for error in errors)
        return f"{text}; resolution errors: [{', '.join(unresolved)}]"


def _label(storage: str) -> str:
    group, _, plural = storage.partition("/")
    return f"{plural}.{group}"


def _without_gc_fields(obj: Object) -> Object:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name not in _GC_FIELDS}}
