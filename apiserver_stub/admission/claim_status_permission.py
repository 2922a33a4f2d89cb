"""ClaimStatusPermission: permissions for parts of the status of resource claims.

Upstream enforces it in the validation of the kind (feature gate DRAResourceClaimGranularStatusAuthorization).
"""

from __future__ import annotations

from collections.abc import Iterable

from apiserver_stub.admission.plugin import AdmissionPlugin
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import Cause, forbidden, forbidden_value, invalid, qualified
from apiserver_stub.cel.authorization import Decide
from apiserver_stub.validation.device_claims import device_key
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_ACCOUNT_PREFIX = "system:serviceaccount:"
_NODE_NAME = "node-name"


class ClaimStatusPermission(AdmissionPlugin):
    """Require ``resourceclaims/binding`` for allocations, and ``resourceclaims/driver`` for the status of devices.

    A driver with a token that is bound to the node of the claim needs the verb ``associated-node:VERB``, any other one
    ``arbitrary-node:VERB``.

    :param checks_devices: the status of devices is served (feature gate DRAResourceClaimDeviceStatus).
    """

    name = "ClaimStatusPermission"
    operations = ("UPDATE",)

    def __init__(self, authorize: Decide, identity: Identity, *, checks_devices: bool) -> None:
        self._authorize, self._group, self._checks_devices = authorize, identity.group("resource"), checks_devices
        self._node_extra = identity.label(_NODE_NAME, "authentication")
        self.resources = (f"{qualified('resourceclaims', self._group)}/status",)

    async def validate(self, call: AdmissionRequest) -> None:
        new, old = (obj.get("status") or {} for obj in (call.obj, call.old or {}))
        causes: list[Cause] = []
        verb, user = call.request.info.verb, call.request.user
        if any((new.get(name) or None) != (old.get(name) or None) for name in ("allocation", "reservedFor")):
            info = self._info(verb, "binding")
            if not (await self._authorize(user, info))[0]:
                detail = "changing status.allocation or status.reservedFor requires "
                detail += f'resource="resourceclaims/binding", verb="{verb}" permission: {self._denial(user, info)}'
                causes.append(forbidden_value("status.allocation", detail))
        if self._checks_devices and new.get("allocation") is not None:
            causes += await self._check_drivers(call, new, old)
        if causes:
            raise invalid(call.resource.group, call.resource.kind, call.target, causes)

    async def _check_drivers(self, call: AdmissionRequest, new: Object, old: Object) -> list[Cause]:
        verb, user, causes = call.request.info.verb, call.request.user, list[Cause]()
        verbs = [f"arbitrary-node:{verb}"]
        if self._is_on_node(user, _node_of(new)):
            verbs.insert(0, f"associated-node:{verb}")
        for driver in sorted(_changed_drivers(new, old)):
            infos = [self._info(each, "driver", call.namespace, driver) for each in verbs]
            if not any([(await self._authorize(user, info))[0] for info in infos]):
                detail = 'changing status.devices requires resource="resourceclaims/driver", '
                detail += f'verb="[{" ".join(verbs)}]" permission: {self._denial(user, infos[0])}'
                causes.append(forbidden_value("status.devices", detail))
        return causes

    def _info(self, verb: str, subresource: str, namespace: str = "", name: str = "") -> RequestInfo:
        return RequestInfo(verb, "", self._group, "*", "resourceclaims", subresource, namespace, name)

    def _denial(self, user: User, info: RequestInfo) -> str:
        location = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
        text = f'User "{user.name}" cannot {info.verb} resource "resourceclaims/{info.subresource}" in API group '
        return forbidden(self._group, info.resource, info.name, f'{text}"{self._group}" {location}').message

    def _is_on_node(self, user: User, node: str) -> bool:
        names = user.extra.get(self._node_extra) or ()
        return bool(node) and user.name.startswith(_ACCOUNT_PREFIX) and list(names) == [node]


def _node_of(status: Object) -> str:
    """Return the only node on which the allocated devices are available, empty if there may be several."""
    terms: list[Object] = dig(status, ("allocation", "nodeSelector", "nodeSelectorTerms")) or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or ()) != 1:
        return ""
    (field,) = terms[0]["matchFields"]
    values: list[str] = field.get("values") or []
    is_name = field.get("key") == "metadata.name" and field.get("operator") == "In" and len(values) == 1
    return values[0] if is_name else ""


def _changed_drivers(new: Object, old: Object) -> Iterable[str]:
    after, before = ({device_key(item): item for item in status.get("devices") or ()} for status in (new, old))
    return {key[0] for key in after.keys() | before.keys() if after.get(key) != before.get(key)}
