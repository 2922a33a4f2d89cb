"""Token requests: tokens of service accounts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, conflict, invalid, invalid_value, not_found
from apiserver_stub.authn.token_keys import SigningError
from apiserver_stub.validation.reviews import validate_token_request
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.body import read_object
from apiserver_stub.verbs.field_manager import track_action
from apiserver_stub.verbs.preparation import clean_metadata, settle_namespace
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.write_options import check_options

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.authn.service_account import ServiceAccountTokens
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext
    from nodeagent.base.gates import FeatureGates

_DEFAULT_SECONDS = 3600
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_NODE_GATE, _UID_GATE = "ServiceAccountTokenNodeBinding", "TokenRequestServiceAccountUIDValidation"


class TokenRequests:
    """The subresource ``token`` of service accounts.

    :param gates: ``ServiceAccountTokenNodeBinding`` allows tokens that are bound to nodes;
        ``TokenRequestServiceAccountUIDValidation`` makes a UID in the metadata a precondition on the account.
    """

    def __init__(self, context: VerbContext, tokens: ServiceAccountTokens, gates: FeatureGates) -> None:
        self._context, self._tokens = context, tokens
        self._binds_to_nodes = gates.enabled(_NODE_GATE)
        self._has_uid, self._requires_uid = gates.exists(_UID_GATE), gates.enabled(_UID_GATE)

    async def create(self, request: Request, resource: Resource) -> Reply:
        """Return a token of the account, bound to the object that the request refers to."""
        info, group = request.info, request.identity.group("authentication")
        check_options(request, "CreateOptions")
        token_request = read_object(request, "TokenRequest", f"{group}/v1")
        metadata = token_request["metadata"]
        uid = metadata.get("uid") or ""
        clean_metadata(request, metadata)
        settle_namespace(request, resource, metadata)
        spec = token_request.setdefault("spec", {})
        spec.setdefault("expirationSeconds", _DEFAULT_SECONDS)
        track_action(request, resource, token_request)
        call = AdmissionRequest("CREATE", request, resource, token_request, name=info.name, dry_run=request.dry_run)
        await self._context.admission.admit(call)
        if (name := metadata.get("name") or info.name) != info.name:
            cause = invalid_value("metadata.name", name, "must match the service account name if specified")
            raise invalid(group, "TokenRequest", info.name, [cause])
        record = self._context.store.collection("core/serviceaccounts").get(objects.key_of(info.namespace, info.name))
        if record is None:
            raise not_found("", "serviceaccounts", info.name)
        account: Object = objects.decode(record.data)
        if self._has_uid:
            metadata["uid"] = self._checked_uid(request, uid, account)
        if causes := validate_token_request(spec):
            raise invalid(group, "TokenRequest", "", causes)
        await self._context.admission.validate(call)
        audiences, seconds = spec.get("audiences") or self._tokens.api_audiences, spec["expirationSeconds"]
        reference = spec.get("boundObjectRef")
        bound = self._bound_object(info.namespace, info.name, reference) if reference is not None else None
        try:
            issued = await self._tokens.issue(account, audiences, seconds, bound)
        except SigningError as error:
            raise ApiError(500, "", f"failed to generate token: {error}") from error
        request.warnings.extend(issued.warnings)
        metadata |= {"name": info.name, "namespace": info.namespace, "creationTimestamp": objects.now()}
        response: Object = {
            "kind": "TokenRequest",
            "apiVersion": f"{group}/v1",
            "metadata": metadata,
            "spec": {"audiences": list(audiences), "expirationSeconds": issued.seconds, "boundObjectRef": reference},
            "status": {
                "token": issued.token,
                "expirationTimestamp": objects.format_time(datetime.fromtimestamp(issued.expires_at, UTC)),
            },
        }
        return Reply(201, obj=response)

    def _checked_uid(self, request: Request, uid: str, account: Object) -> str:
        """Return *uid*, by default that of the account.

        :raises ApiError: 409, the account has another UID.
        """
        stored: str = account["metadata"]["uid"]
        if uid and uid != stored:
            text = f"the UID in the token request ({uid}) does not match the UID of the service account ({stored})"
            if self._requires_uid:
                group = request.identity.group("authentication")
                raise conflict(group, "TokenRequest", account["metadata"]["name"], text)
            future = f"{_UID_GATE} is not enabled. In the future, this will return a conflict error"
            request.warnings.append(f"{text} but {future}")
        return uid or stored

    def _bound_object(self, namespace: str, account: str, reference: Object) -> tuple[str, Object]:
        """Return the kind and the object that the token is bound to.

        :raises ApiError: 400, 404 or 409, it cannot be bound to that.
        """
        kind, api_version = reference.get("kind") or "", reference.get("apiVersion") or ""
        if api_version.count("/") > 1:
            api_version = ""
        group, _, version = api_version.rpartition("/")
        plural = "" if group else _BOUND.get(kind)
        if not plural:
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        if kind == "Node" and not self._binds_to_nodes:
            raise bad_request(f'cannot bind token to a Node object as the "{_NODE_GATE}" feature-gate is disabled')
        if not (name := reference.get("name") or ""):
            raise bad_request("Name parameter required.")
        where = "" if kind == "Node" else namespace
        record = self._context.store.collection(f"core/{plural}").get(objects.key_of(where, name))
        if record is None:
            raise not_found("", plural, name)
        obj: Object = objects.decode(record.data)
        if kind == "Pod" and (obj["spec"].get("serviceAccountName") or "default") != account:
            raise bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        uid = reference.get("uid")
        if uid and uid != obj["metadata"]["uid"]:
            raise conflict(
                "",
                kind,
                name,
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        return kind, obj
