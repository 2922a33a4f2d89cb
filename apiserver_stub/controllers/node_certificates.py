"""Certificates of nodes: approve requests of nodes for themselves, and sign them with this server's own CA.

Requests that were approved by hand are signed too if they are for a certificate of a node. All others are left alone.
Old requests are deleted.
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

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig, format_time, parse_time
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from nodeagent.base import identity
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.tls import KeyPair, TlsError, certify

if TYPE_CHECKING:
    from cryptography import x509

    from apiserver_stub.authz import Chain
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

_GROUP, _PLURAL = identity.current().group("certificates"), "certificatesigningrequests"
_COLLECTION = f"{_GROUP}/{_PLURAL}"
_NODES = "core/nodes"
_NODES_GROUP = "system:nodes"
_NAME_PREFIX = "system:node:"
_MIN_SECONDS = 600
_BACKDATE = timedelta(minutes=5)
_ANSWERED_STAY, _WAITING_STAY = timedelta(hours=1), timedelta(hours=24)
_RETRY_SECONDS = 10.0
"""Until a request that was left alone is examined again: roles may permit it by then."""
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


async def sign_for_nodes(
    store: Store, authorizer: Chain, authority: KeyPair, life: timedelta, *, signs_clients: bool
) -> None:
    """Approve, sign and delete requests; runs until cancelled.

    :param life: of a certificate whose request names none.
    :param signs_clients: whether this server trusts its own CA for clients; no other server would.
    """
    await NodeCertificates(store, authorizer, authority, life, signs_clients=signs_clients).run()


class NodeCertificates:
    """Controller of the certificate signing requests of nodes."""

    def __init__(
        self,
        store: Store,
        authorizer: Chain,
        authority: KeyPair,
        life: timedelta,
        *,
        signs_clients: bool,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._authorizer, self._authority, self._life = store, authorizer, authority, life
        self._signs_clients = signs_clients
        self._clock = clock or SystemClock()
        self._queue: WorkQueue[str] = WorkQueue("node-certificates", clock)
        self._left: set[str] = set()
        """Requests that were left alone."""

    async def run(self) -> None:
        await run_controller(ChangeFeed(self._store, [_COLLECTION, _NODES], self), self._queue, self._process)

    def reset(self) -> None:
        self._left.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection == _COLLECTION:
            self._queue.add(record.key)
        elif self._left and (previous is None or _addresses(previous) != _addresses(record)):
            for key in self._left:
                self._queue.add(key)

    def remove(self, collection: str, record: Record) -> None:
        if collection == _COLLECTION:
            self._left.discard(record.key)

    async def _process(self, key: str) -> None:
        record = self._store.collection(_COLLECTION).get(key)
        if record is None:
            return
        signing, now = objects.decode(record.data), self._clock.wall()
        expires = _expires(signing)
        if now > expires:
            await _change(self._store, key, signing, None)
            return
        self._queue.add_after(key, (expires - now).total_seconds() + 1)
        try:
            await self._sign(key, signing, now)
        except (Unfit, TlsError) as error:
            if key not in self._left:
                self._left.add(key)
                _log.warning("Certificate request is left alone", extra={"request": key, "err": str(error)})
            self._queue.add_after(key, _RETRY_SECONDS)

    async def _sign(self, key: str, signing: Object, now: datetime) -> None:
        """Approve and sign the request.

        :raises Unfit: it is not one that this server signs.
        """
        status = signing.get("status") or {}
        decided = _decided(signing)
        if _is_answered(signing) or (asked := read(signing)) is None:
            return
        if not asked.serving and not self._signs_clients:
            raise Unfit("--client-ca-file does not hold the authority of this server, which would sign")
        if "Approved" not in decided:
            reason = await _why_approved(self._store, self._authorizer, signing, asked)
            moment = format_time(now)
            condition = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": reason}
            condition |= {"lastUpdateTime": moment, "lastTransitionTime": moment}
            status = {**status, "conditions": [*(status.get("conditions") or ()), condition]}
        seconds = signing["spec"].get("expirationSeconds")
        granted = timedelta(seconds=max(seconds, _MIN_SECONDS)) if seconds else self._life
        certificate = await asyncio.to_thread(issue, asked, self._authority, now, granted)
        signed = {**status, "certificate": base64.b64encode(certificate).decode()}
        await _change(self._store, key, signing, signed)
        self._left.discard(key)
        _log.info("Certificate is issued", extra={"request": key, "user": asked.common_name})


def _decided(signing: Object) -> set[str]:
    return {item["type"] for item in dig(signing, ("status", "conditions")) or ()}


def _is_answered(signing: Object) -> bool:
    return bool(dig(signing, ("status", "certificate"))) or bool(_decided(signing) & {"Denied", "Failed"})


def _expires(signing: Object) -> datetime:
    created = parse_time(signing["metadata"].get("creationTimestamp")) or datetime.fromtimestamp(0, UTC)
    return created + (_ANSWERED_STAY if _is_answered(signing) else _WAITING_STAY)


def _addresses(record: Record) -> set[str]:
    return addresses_of(objects.decode(record.data))


async def _why_approved(store: Store, authorizer: Chain, signing: Object, asked: Asked) -> str:
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
        record = store.collection(_NODES).get(asked.node)
        foreign = asked.names - addresses_of(None if record is None else objects.decode(record.data))
        if foreign:
            raise Unfit(f"node {asked.node} does not say that it is reached at {', '.join(sorted(foreign))}")
        return "The node asks for the addresses that it has."
    for subresource in ("selfnodeclient",) * itself + ("nodeclient",):
        path = f"/apis/{_GROUP}/v1/{_PLURAL}/{subresource}"
        info = RequestInfo("create", path, _GROUP, "v1", _PLURAL, subresource)
        if (await authorizer.authorize(user, info)).allowed:
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


async def _change(store: Store, key: str, seen: Object, status: Object | None) -> None:
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
        await store.update(_COLLECTION, key, decide)
