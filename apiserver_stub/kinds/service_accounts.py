"""Service accounts and requests for their tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apiserver_stub.admission import Call
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import bad_request, conflict, invalid, invalid_value, not_found
from apiserver_stub.kinds.columns import AGE, NAME
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.reviews import validate_token_request
from apiserver_stub.verbs.responses import Reply
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.options import Options
    from apiserver_stub.server.state import ApiServer

_DEFAULT_SECONDS = 3600
_GROUP = identity.current().group("authentication")
_TOKEN_REQUEST = f"{_GROUP}/v1"
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_NODE_GATE = "ServiceAccountTokenNodeBinding"


class ServiceAccountStrategy(Strategy):
    """References to secrets consist of names."""

    def prepare_create(self, new: Object) -> None:
        if secrets := new.get("secrets"):
            new["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        self.prepare_create(new)


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "ServiceAccount",
            "serviceaccounts",
            short_names=("sa",),
            strategy=ServiceAccountStrategy(),
            subresources=(
                Subresource(
                    "token",
                    ("create",),
                    "TokenRequest",
                    identity.current().group("authentication"),
                    "v1",
                    action=create_token,
                ),
            ),
            columns=(NAME, Column("Secrets", lambda obj: len(obj.get("secrets") or ())), AGE),
            returns_deleted=True,
        )
    ]


async def create_token(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Answer a TokenRequest with a token for the account, bound to the object it names."""
    from apiserver_stub.verbs.field_manager import track_action
    from apiserver_stub.verbs.writing import check_options, clean_metadata, read_object, settle_namespace

    info = request.info
    check_options(request, "CreateOptions")
    asked = read_object(request, "TokenRequest", _TOKEN_REQUEST)
    metadata = asked["metadata"]
    clean_metadata(request, metadata)
    settle_namespace(request, resource, metadata)
    spec = asked.setdefault("spec", {})
    spec.setdefault("expirationSeconds", _DEFAULT_SECONDS)
    track_action(request, resource, asked)
    call = Call("CREATE", request, resource, asked, name=info.name, dry_run=request.dry_run)
    await server.admission.admit(call)
    if (name := metadata.get("name") or info.name) != info.name:
        cause = invalid_value("metadata.name", name, "must match the service account name if specified")
        raise invalid(_GROUP, "TokenRequest", info.name, [cause])
    record = server.store.collection("core/serviceaccounts").get(objects.key_of(info.namespace, info.name))
    if record is None:
        raise not_found("", "serviceaccounts", info.name)
    account: Object = objects.decode(record.data)
    if causes := validate_token_request(spec):
        raise invalid(_GROUP, "TokenRequest", "", causes)
    await server.admission.validate(call)
    audiences, seconds = spec.get("audiences") or server.tokens.api_audiences, spec["expirationSeconds"]
    reference = spec.get("boundObjectRef")
    bound = _bound_object(server, info.namespace, info.name, reference) if reference is not None else None
    issued = server.tokens.issue(account, audiences, seconds, bound)
    request.warnings.extend(issued.warnings)
    metadata |= {"name": info.name, "namespace": info.namespace, "creationTimestamp": objects.now()}
    answer: Object = {
        "kind": "TokenRequest",
        "apiVersion": _TOKEN_REQUEST,
        "metadata": metadata,
        "spec": {"audiences": list(audiences), "expirationSeconds": issued.seconds, "boundObjectRef": reference},
        "status": {
            "token": issued.token,
            "expirationTimestamp": objects.format_time(datetime.fromtimestamp(issued.expires_at, UTC)),
        },
    }
    return Reply(201, obj=answer)


def _bound_object(server: ApiServer, namespace: str, account: str, reference: Object) -> tuple[str, Object]:
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
    if kind == "Node" and not server.options.gates.enabled(_NODE_GATE):
        raise bad_request(f'cannot bind token to a Node object as the "{_NODE_GATE}" feature-gate is disabled')
    if not (name := reference.get("name") or ""):
        raise bad_request("Name parameter required.")
    where = "" if kind == "Node" else namespace
    record = server.store.collection(f"core/{plural}").get(objects.key_of(where, name))
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
