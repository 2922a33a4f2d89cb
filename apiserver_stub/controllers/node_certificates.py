"""Certificates of nodes: approved when a node asks for itself, signed with this server's own authority.

What anybody approved by hand is signed too, as far as it is a certificate of a node. Everything else stays as it is,
for others to decide. Requests that have been answered, or never were, are removed after a while.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.objects import Object, dig, format_time
from apiserver_stub.request import RequestInfo, User
from apiserver_stub.store import Keep, Outcome, Put, Record, Remove, StoreUnavailable
from nodeagent.base import identity
from nodeagent.base.tls import KeyPair, TlsError, certify

if TYPE_CHECKING:
    from cryptography import x509

    from apiserver_stub.app import ApiServer

_log = logging.getLogger(__name__)

_GROUP, _PLURAL = identity.current().group("certificates"), "certificatesigningrequests"
_COLLECTION = f"{_GROUP}/{_PLURAL}"
_NODES = "core/nodes"
_NODES_GROUP = "system:nodes"
_NAME_PREFIX = "system:node:"
_MIN_SECONDS = 600
_BACKDATE = timedelta(minutes=5)
_ANSWERED_STAY, _WAITING_STAY = timedelta(hours=1), timedelta(hours=24)
_CLEAN_SECONDS = 600.0
_OPTIONAL_USAGE = "key encipherment"
_CLIENT_USAGES = frozenset({"digital signature", "client auth"})
_SERVING_USAGES = frozenset({"digital signature", "server auth"})


class Unfit(ValueError):
    """The request is not one for a node's certificate; the text says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request for a node's certificate asks for."""

    serving: bool
    common_name: str
    names: frozenset[str]
    """Host names and addresses."""
    request: x509.CertificateSigningRequest

    @property
    def node(self) -> str:
        return self.common_name.removeprefix(_NAME_PREFIX)


def read(signing: Object) -> Asked | None:
    """Return what the CertificateSigningRequest *signing* asks for, ``None`` when it is for another signer.

    :raises Unfit: it is for a signer of nodes and is no request of a node.
    """
    from cryptography import x509

    spec = signing["spec"]
    serving = spec["signerName"] == identity.current().serving_signer
    if not serving and spec["signerName"] != identity.current().client_signer:
        return None
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
        common = [str(item.value) for item in request.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
        groups = [str(item.value) for item in request.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)]
        names = _names(request)
        signed = request.is_signature_valid
    except ValueError as error:
        raise Unfit(f"the request cannot be read: {error}") from None
    if not signed:
        raise Unfit("the request is not signed with its own key")
    if groups != [_NODES_GROUP]:
        raise Unfit(f"the organization is not {_NODES_GROUP}")
    if len(common) != 1 or not common[0].startswith(_NAME_PREFIX) or common[0] == _NAME_PREFIX:
        raise Unfit(f"the common name does not begin with {_NAME_PREFIX}")
    wanted = _SERVING_USAGES if serving else _CLIENT_USAGES
    if set(spec["usages"]) - {_OPTIONAL_USAGE} != wanted:
        raise Unfit(f"the usages are not {', '.join(sorted(wanted))}")
    if serving != bool(names):
        raise Unfit("there are no names and addresses" if serving else "a client has no names or addresses")
    return Asked(serving, common[0], names, request)


def _names(request: x509.CertificateSigningRequest) -> frozenset[str]:
    """Return host names and addresses.

    :raises Unfit: there are others.
    """
    from cryptography import x509

    try:
        found = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    if any(not isinstance(item, x509.DNSName | x509.IPAddress) for item in found):
        raise Unfit("only host names and addresses may be asked for")
    addresses = {str(address) for address in found.get_values_for_type(x509.IPAddress)}
    return frozenset(addresses | set(found.get_values_for_type(x509.DNSName)))


def addresses_of(node: Object | None) -> set[str]:
    """Return the names and addresses at which *node* says that it is reached, as certificates write them."""
    found = set()
    for entry in dig(node, ("status", "addresses")) or ():
        try:
            found.add(str(ip_address(entry["address"])))
        except ValueError:
            found.add(str(entry["address"]))
    return found


async def sign_for_nodes(server: ApiServer, authority: KeyPair, life: timedelta, *, signs_clients: bool) -> None:
    """Approve, sign and clear away requests whenever there are new ones; runs until cancelled.

    :param life: of a certificate whose request names none.
    :param signs_clients: whether this server believes its own authority about clients; nothing else would.
    """
    told: set[str] = set()
    while True:
        position = server.positions(_COLLECTION, _NODES)
        for record in server.store.collection(_COLLECTION).select():
            signing = objects.decode(record.data)
            try:
                await _look_at(server, record.key, signing, authority, life, signs_clients=signs_clients)
            except (Unfit, TlsError) as error:
                if signing["metadata"]["uid"] not in told:
                    told.add(signing["metadata"]["uid"])
                    _log.warning("Certificate request is left alone", extra={"request": record.key, "err": str(error)})
            except StoreUnavailable as error:
                _log.warning("Certificate request was not answered", extra={"request": record.key, "err": error})
        told &= {objects.decode(r.data)["metadata"]["uid"] for r in server.store.collection(_COLLECTION).select()}
        await server.changed_since(position, timeout_seconds=_CLEAN_SECONDS)


async def _look_at(
    server: ApiServer, key: str, signing: Object, authority: KeyPair, life: timedelta, *, signs_clients: bool
) -> None:
    """Do what one request needs.

    :raises Unfit: it cannot have what it asks for.
    """
    now = datetime.now(UTC)
    status = signing.get("status") or {}
    decided = {item["type"] for item in status.get("conditions") or ()}
    answered = bool(status.get("certificate")) or bool(decided & {"Denied", "Failed"})
    age = now - datetime.fromisoformat(signing["metadata"]["creationTimestamp"])
    if age > (_ANSWERED_STAY if answered else _WAITING_STAY):
        await _change(server, key, signing, None)
        return
    if answered or (asked := read(signing)) is None:
        return
    if not asked.serving and not signs_clients:
        raise Unfit("--client-ca-file does not hold the authority of this server, which would sign")
    if "Approved" not in decided:
        reason = await _why_approved(server, signing, asked)
        moment = format_time(now)
        condition = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": reason}
        condition |= {"lastUpdateTime": moment, "lastTransitionTime": moment}
        status = {**status, "conditions": [*(status.get("conditions") or ()), condition]}
    seconds = signing["spec"].get("expirationSeconds")
    granted = timedelta(seconds=max(seconds, _MIN_SECONDS)) if seconds else life
    certificate = await asyncio.to_thread(issue, asked, authority, now, granted)
    answer = {**status, "certificate": base64.b64encode(certificate).decode()}
    await _change(server, key, signing, answer)
    _log.info("Certificate is issued", extra={"request": key, "user": asked.common_name})


async def _why_approved(server: ApiServer, signing: Object, asked: Asked) -> str:
    """Return why this server approves the request.

    :raises Unfit: it does not.
    """
    spec = signing["spec"]
    user = User(
        spec.get("username", ""),
        spec.get("uid", ""),
        tuple(spec.get("groups") or ()),
        {name: tuple(values) for name, values in (spec.get("extra") or {}).items()},
    )
    itself = user.name == asked.common_name
    if asked.serving:
        if not itself or _NODES_GROUP not in user.groups:
            raise Unfit(f"a serving certificate is for the node itself, and {user.name} asks")
        record = server.store.collection(_NODES).get(asked.node)
        foreign = asked.names - addresses_of(None if record is None else objects.decode(record.data))
        if foreign:
            raise Unfit(f"node {asked.node} does not say that it is reached at {', '.join(sorted(foreign))}")
        return "The node asks for the addresses that it has."
    for subresource in ("selfnodeclient",) * itself + ("nodeclient",):
        path = f"/apis/{_GROUP}/v1/{_PLURAL}/{subresource}"
        info = RequestInfo("create", path, _GROUP, "v1", _PLURAL, subresource)
        if (await server.authorizer.authorize(user, info)).allowed:
            return f"Who asks may create {_PLURAL}/{subresource}."
    raise Unfit(f"{user.name} may create neither {_PLURAL}/nodeclient nor, for itself, {_PLURAL}/selfnodeclient")


def issue(asked: Asked, authority: KeyPair, now: datetime, life: timedelta) -> bytes:
    """Return the certificate (PEM) that *asked* describes, good for *life* from *now* on.

    It begins a little earlier, for clocks that are behind, and says nothing that was not looked at.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return certify(
        authority,
        asked.request.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        asked.common_name,
        organizations=(_NODES_GROUP,),
        names=sorted(asked.names),
        server=asked.serving,
        client=not asked.serving,
        begin=now - min(_BACKDATE, life / 10),
        end=now + life,
    )


async def _change(server: ApiServer, key: str, seen: Object, status: Object | None) -> None:
    """Write *status*, or remove the request without one, unless it changed since it was *seen*."""

    def decide(current: Record | None) -> Outcome:
        if current is None:
            raise LookupError(key)
        found: Object = objects.decode(current.data)
        if found["metadata"]["resourceVersion"] != seen["metadata"]["resourceVersion"]:
            return Keep()
        data = objects.encode_for_store(found if status is None else {**found, "status": status})
        return Remove(data) if status is None else Put(data)

    with contextlib.suppress(LookupError):  # deleted meanwhile
        await server.store.update(_COLLECTION, key, decide)
