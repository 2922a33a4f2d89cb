"""Service accounts and the tokens they ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.admission import Call
from apiserver_stub.objects import Object
from apiserver_stub.reply import Reply
from apiserver_stub.resources.columns import AGE, NAME
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import bad_request, conflict, invalid, invalid_value, not_found
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.options import Options
    from apiserver_stub.request import Request

_DEFAULT_SECONDS = 3600
_SHORTEST_SECONDS = 600
_LONGEST_SECONDS = 1 << 32
_BOUND = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}
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
    from apiserver_stub.verbs.writing import read_object

    info = request.info
    asked = read_object(request, "TokenRequest", identity.current().group("authentication") + "/v1")
    record = server.store.collection("core/serviceaccounts").get(objects.key_of(info.namespace, info.name))
    if record is None:
        raise not_found("", "serviceaccounts", info.name)
    account: Object = objects.decode(record.data)
    await server.admission.check(Call("CREATE", request, resource, asked, name=info.name, dry_run=request.dry_run))
    _check_place(asked["metadata"], info.namespace, info.name)
    spec = asked.setdefault("spec", {})
    audiences = spec.get("audiences") or server.tokens.api_audiences
    seconds = spec.get("expirationSeconds")
    seconds = _DEFAULT_SECONDS if seconds is None else seconds
    field = "spec.expirationSeconds"
    wrong = None
    if not isinstance(seconds, int) or seconds < _SHORTEST_SECONDS:
        wrong = invalid_value(field, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > _LONGEST_SECONDS:
        wrong = invalid_value(field, seconds, "may not specify a duration larger than 2^32 seconds")
    if wrong:
        raise invalid(identity.current().group("authentication"), "TokenRequest", "", [wrong])
    reference = spec.get("boundObjectRef")
    bound = _bound_object(server, info.namespace, info.name, reference) if reference else None
    issued = server.tokens.issue(account, audiences, seconds, bound)
    request.warnings.extend(issued.warnings)
    metadata = {"name": info.name, "namespace": info.namespace, "creationTimestamp": objects.now()}
    answer: Object = {
        "kind": "TokenRequest",
        "apiVersion": identity.current().group("authentication") + "/v1",
        "metadata": metadata,
        "spec": {"audiences": list(audiences), "expirationSeconds": issued.seconds, "boundObjectRef": reference},
        "status": {
            "token": issued.token,
            "expirationTimestamp": objects.format_time(datetime.fromtimestamp(issued.expires_at, UTC)),
        },
    }
    return Reply(201, obj=answer)


def _check_place(metadata: Object, namespace: str, name: str) -> None:
    """Refuse a request that names another account than its path does.

    :raises ApiError: 400 or 422.
    """
    if metadata.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if (given := metadata.get("name")) not in (None, "", name):
        cause = invalid_value("metadata.name", given, "must match the service account name if specified")
        raise invalid(identity.current().group("authentication"), "TokenRequest", name, [cause])


def _bound_object(server: ApiServer, namespace: str, account: str, reference: Object) -> tuple[str, Object]:
    """Return kind and object that the token is good with.

    :raises ApiError: 400, 404 or 409, it cannot be bound to that.
    """
    kind, api_version = reference.get("kind") or "", reference.get("apiVersion") or ""
    plural = _BOUND.get((api_version or "v1", kind))
    if plural is None:
        group, _, version = api_version.rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    if kind == "Node" and not server.options.gates.enabled(_NODE_GATE):
        raise bad_request(f'cannot bind token to a Node object as the "{_NODE_GATE}" feature-gate is disabled')
    name = reference.get("name") or ""
    where = "" if kind == "Node" else namespace
    record = server.store.collection(f"core/{plural}").get(objects.key_of(where, name))
    if record is None:
        raise not_found("", plural, name)
    obj: Object = objects.decode(record.data)
    uid = reference.get("uid")
    if uid and uid != obj["metadata"]["uid"]:
        raise conflict(
            "",
            kind,
            name,
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    if kind == "Pod" and (obj["spec"].get("serviceAccountName") or "default") != account:
        raise bad_request(
            f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
        )
    return kind, obj
