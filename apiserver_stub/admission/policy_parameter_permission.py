"""Require permission to read the parameters of an admission policy; always enabled."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.listers import Lister
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError, forbidden_value, invalid, qualified
from apiserver_stub.cel.authorization import Decide
from apiserver_stub.kinds.registry import Registry
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_POLICIES, _BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
_SUPERUSERS = "system:masters"


class PolicyParameterPermission(AdmissionPlugin):
    """Require permission to read parameters from users who refer to them; always enabled."""

    name = "PolicyParameterPermission"

    def __init__(self, lister: Lister, registry: Registry, decide: Decide, identity: Identity) -> None:
        self._group = identity.group("admissionregistration")
        self.resources = (qualified(_POLICIES, self._group), qualified(_BINDINGS, self._group))
        self._lister, self._registry, self._decide = lister, registry, decide

    async def validate(self, call: AdmissionRequest) -> None:
        if _SUPERUSERS in call.request.user.groups:
            return
        if call.resource.plural == _POLICIES:
            await self._validate_policy(call)
        else:
            await self._validate_binding(call)

    async def _validate_policy(self, call: AdmissionRequest) -> None:
        kind = dig(call.obj, ("spec", "paramKind"))
        if kind is None or kind == dig(call.old, ("spec", "paramKind")):
            return
        user = call.request.user
        group, version, resource = self._resource(kind)
        if not (await self._decide(user, RequestInfo("get", "", group, version, resource, "", "*", "*")))[0]:
            detail = f'user {_formatted(user)} must have "get" permission on all objects of the referenced paramKind '
            detail += f"(kind={kind.get('kind') or ''}, apiVersion={kind.get('apiVersion') or ''})"
            raise _forbidden(call, "paramKind", detail)

    async def _validate_binding(self, call: AdmissionRequest) -> None:
        spec, before = call.obj.get("spec") or {}, dig(call.old, ("spec",)) or {}
        reference = spec.get("paramRef")
        if reference is None or all(spec.get(name) == before.get(name) for name in ("paramRef", "policyName")):
            return
        policy = self._lister.find(f"{self._group}/{_POLICIES}", spec.get("policyName") or "")
        kind = dig(policy, ("spec", "paramKind"))
        group, version, resource = self._resource(kind) if kind is not None else ("*", "*", "*")
        name, user = reference.get("name") or "", call.request.user
        verb = "get" if name else "list"
        info = RequestInfo(verb, "", group, version, resource, "", reference.get("namespace") or "", name)
        if not (await self._decide(user, info))[0]:
            # Upstream swaps the verb and the user.
            detail = f'user {verb} does not have "{_formatted(user)}" permission on the object referenced by paramRef'
            raise _forbidden(call, "paramRef", detail)

    def _resource(self, kind: Object) -> tuple[str, str, str]:
        """Return group, version and resource of *kind*; ``*`` as the resource if the kind is not served."""
        group, _, version = str(kind.get("apiVersion") or "").rpartition("/")
        requested = (group, version, kind.get("kind"))
        plurals = (item.plural for item in self._registry if (item.group, item.version, item.kind) == requested)
        return group, version, next(plurals, "*")


def _forbidden(call: AdmissionRequest, field: str, detail: str) -> ApiError:
    resource = call.resource
    return invalid(resource.group, resource.kind, call.target, [forbidden_value(f"spec.{field}", detail)])


def _formatted(user: User) -> str:
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
