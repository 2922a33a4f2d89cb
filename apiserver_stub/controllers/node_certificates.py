"""Node certificates: approve and sign the CertificateSigningRequests of nodes with the CA of this server.

A request that an administrator approved is signed too if it is for a node certificate. Other requests are ignored. Old
requests are deleted.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
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
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct
from nodeagent.base.tls import KeyPair, TlsError, certify, parse_errors

if TYPE_CHECKING:
    from cryptography import x509

    from apiserver_stub.authz import Chain
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

_PLURAL = "certificatesigningrequests"
_NODES = "core/nodes"
_NODES_GROUP = "system:nodes"
_NAME_PREFIX = "system:node:"
_MIN_SECONDS = 600
_BACKDATE = timedelta(minutes=5)
_COMPLETED_RETENTION, _PENDING_RETENTION = timedelta(hours=1), timedelta(hours=24)
_RETRY_SECONDS = 10.0
"""Time after which an ignored request is checked again, since roles may permit it by then."""
_OPTIONAL_USAGE = "key encipherment"
_CLIENT_USAGES = frozenset({"digital signature", "client auth"})
_SERVING_USAGES = frozenset({"digital signature", "server auth"})


class NotANodeCertificate(ValueError):
    """The request is not a valid request for a node certificate; the message contains the reason."""


class NodeCertificateRequest(Struct, frozen=True):
    """Content of a valid request for a node certificate."""

    serving: bool
    common_name: str
    names: frozenset[str]
    """Requested host names and addresses."""
    request: x509.CertificateSigningRequest

    @property
    def node(self) -> str:
        return self.common_name.removeprefix(_NAME_PREFIX)


def read(signing: Object, identity: Identity) -> NodeCertificateRequest | None:
    """Return the content of the CertificateSigningRequest *signing*, ``None`` if it is for another signer.

    :raises NotANodeCertificate: it is for a signer of node certificates, but not a valid request of a node.
    """
    from cryptography import x509

    spec = signing["spec"]
    serving = spec["signerName"] == identity.serving_signer
    if not serving and spec["signerName"] != identity.client_signer:
        return None
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
        common = [str(item.value) for item in request.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
        groups = [str(item.value) for item in request.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)]
        names = _names(request)
        signed = request.is_signature_valid
    except parse_errors() as error:
        raise NotANodeCertificate(f"invalid request: {error}") from None
    if not signed:
        raise NotANodeCertificate("invalid request: signature does not match the public key")
    if groups != [_NODES_GROUP]:
        raise NotANodeCertificate(f"subject organization is not {_NODES_GROUP}")
    if len(common) != 1 or not common[0].startswith(_NAME_PREFIX) or common[0] == _NAME_PREFIX:
        raise NotANodeCertificate(f"subject common name does not start with {_NAME_PREFIX}")
    expected = _SERVING_USAGES if serving else _CLIENT_USAGES
    if set(spec["usages"]) - {_OPTIONAL_USAGE} != expected:
        raise NotANodeCertificate(f"usages are not {', '.join(sorted(expected))}")
    if serving != bool(names):
        raise NotANodeCertificate(
            "no DNS or IP subjectAltName" if serving else "subjectAltNames are not allowed for client certificates"
        )
    return NodeCertificateRequest(serving, common[0], names, request)


def _names(request: x509.CertificateSigningRequest) -> frozenset[str]:
    """Return the host names and addresses of the subjectAltName extension.

    :raises NotANodeCertificate: it contains names of other types.
    """
    from cryptography import x509

    try:
        found = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    if any(not isinstance(item, x509.DNSName | x509.IPAddress) for item in found):
        raise NotANodeCertificate("only DNS and IP subjectAltNames are allowed")
    addresses = {str(address) for address in found.get_values_for_type(x509.IPAddress)}
    return frozenset(addresses | set(found.get_values_for_type(x509.DNSName)))


def addresses_of(node: Object | None) -> set[str]:
    """Return the names and addresses in the status of *node*, in the format of certificates."""
    found = set()
    for entry in dig(node, ("status", "addresses")) or ():
        try:
            found.add(str(ip_address(entry["address"])))
        except ValueError:
            found.add(str(entry["address"]))
    return found


async def run_node_csr_signer(
    store: Store, identity: Identity, authorizer: Chain, ca: KeyPair, duration: timedelta, *, signs_clients: bool
) -> None:
    """Run the controller of node certificate requests until cancelled.

    :param duration: validity of certificates whose request has no ``expirationSeconds``.
    :param signs_clients: whether to sign client certificates; false unless this server trusts its own CA for clients.
    """
    await NodeCertificates(store, identity, authorizer, ca, duration, signs_clients=signs_clients).run()


class NodeCertificates:
    """Controller of the certificate signing requests of nodes."""

    def __init__(
        self,
        store: Store,
        identity: Identity,
        authorizer: Chain,
        ca: KeyPair,
        duration: timedelta,
        *,
        signs_clients: bool,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._authorizer, self._ca, self._duration = store, authorizer, ca, duration
        self._signs_clients = signs_clients
        self._identity, self._group = identity, identity.group("certificates")
        self._collection = f"{self._group}/{_PLURAL}"
        self._clock = clock or SystemClock()
        self._queue: WorkQueue[str] = WorkQueue("node-certificates", clock)
        self._ignored: set[str] = set()
        """Keys of ignored requests."""

    async def run(self) -> None:
        await run_controller(ChangeFeed(self._store, [self._collection, _NODES], self), self._queue, self._process)

    def reset(self) -> None:
        self._ignored.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection == self._collection:
            self._queue.add(record.key)
        elif self._ignored and (previous is None or _addresses(previous) != _addresses(record)):
            for key in self._ignored:
                self._queue.add(key)

    def remove(self, collection: str, record: Record) -> None:
        if collection == self._collection:
            self._ignored.discard(record.key)

    async def _process(self, key: str) -> None:
        record = self._store.collection(self._collection).get(key)
        if record is None:
            return
        signing, now = objects.decode(record.data), self._clock.wall()
        expires = _expires(signing)
        if now > expires:
            await self._change(key, signing, None)
            return
        self._queue.add_after(key, (expires - now).total_seconds() + 1)
        try:
            await self._sign(key, signing, now)
        except (NotANodeCertificate, TlsError) as error:
            if key not in self._ignored:
                self._ignored.add(key)
                _log.warning("Ignoring certificate signing request", extra={"request": key, "err": str(error)})
            self._queue.add_after(key, _RETRY_SECONDS)

    async def _sign(self, key: str, signing: Object, now: datetime) -> None:
        """Approve and sign the request.

        :raises NotANodeCertificate: this server does not sign it.
        """
        status = signing.get("status") or {}
        decided = _decided(signing)
        if _is_completed(signing) or (requested := read(signing, self._identity)) is None:
            return
        if not requested.serving and not self._signs_clients:
            raise NotANodeCertificate("--client-ca-file does not contain the signing CA of this server")
        if "Approved" not in decided:
            message = await self._approval_message(signing, requested)
            time = format_time(now)
            condition = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}
            condition |= {"lastUpdateTime": time, "lastTransitionTime": time}
            status = {**status, "conditions": [*(status.get("conditions") or ()), condition]}
        seconds = signing["spec"].get("expirationSeconds")
        granted = timedelta(seconds=max(seconds, _MIN_SECONDS)) if seconds else self._duration
        certificate = await asyncio.to_thread(issue, requested, self._ca, now, granted)
        signed = {**status, "certificate": base64.b64encode(certificate).decode()}
        await self._change(key, signing, signed)
        self._ignored.discard(key)
        _log.info("Issued node certificate", extra={"request": key, "user": requested.common_name})

    async def _approval_message(self, signing: Object, requested: NodeCertificateRequest) -> str:
        """Return the message of the condition with which this server approves the request.

        :raises NotANodeCertificate: it does not approve the request.
        """
        spec = signing["spec"]
        user = User(
            spec.get("username", ""),
            spec.get("uid", ""),
            tuple(spec.get("groups") or ()),
            {name: tuple(values) for name, values in (spec.get("extra") or {}).items()},
        )
        itself = user.name == requested.common_name
        if requested.serving:
            if not itself or _NODES_GROUP not in user.groups:
                raise NotANodeCertificate(
                    f"serving certificate of {requested.common_name} requested by {user.name}, not by the node"
                )
            record = self._store.collection(_NODES).get(requested.node)
            unreported = requested.names - addresses_of(None if record is None else objects.decode(record.data))
            if unreported:
                raise NotANodeCertificate(
                    f"not in the addresses of node {requested.node}: {', '.join(sorted(unreported))}"
                )
            return "Auto approving kubelet serving certificate with addresses of the node."
        if itself and _NODES_GROUP in user.groups:
            return "Auto approving renewal of the kubelet client certificate by the node itself."
        for subresource in ("selfnodeclient",) * itself + ("nodeclient",):
            path = f"/apis/{self._group}/v1/{_PLURAL}/{subresource}"
            info = RequestInfo("create", path, self._group, "v1", _PLURAL, subresource)
            if (await self._authorizer.authorize(user, info)).allowed:
                subject = "self kubelet" if subresource == "selfnodeclient" else "kubelet"
                return f"Auto approving {subject} client certificate after SubjectAccessReview."
        raise NotANodeCertificate(
            f"{user.name} is not authorized to create {_PLURAL}/nodeclient or, for itself, {_PLURAL}/selfnodeclient"
        )

    async def _change(self, key: str, seen: Object, status: Object | None) -> None:
        """Write *status*, or delete the request if it is ``None``, unless the request changed since it was *seen*."""

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(key)
            found: Object = objects.decode(current.data)
            if found["metadata"]["resourceVersion"] != seen["metadata"]["resourceVersion"]:
                return Keep()
            data = objects.encode_for_store(found if status is None else {**found, "status": status})
            return Remove(data) if status is None else Put(data)

        with contextlib.suppress(LookupError):  # Deleted concurrently.
            await self._store.update(self._collection, key, decide)


def _decided(signing: Object) -> set[str]:
    return {item["type"] for item in dig(signing, ("status", "conditions")) or ()}


def _is_completed(signing: Object) -> bool:
    return bool(dig(signing, ("status", "certificate"))) or bool(_decided(signing) & {"Denied", "Failed"})


def _expires(signing: Object) -> datetime:
    created = parse_time(signing["metadata"].get("creationTimestamp")) or datetime.fromtimestamp(0, UTC)
    return created + (_COMPLETED_RETENTION if _is_completed(signing) else _PENDING_RETENTION)


def _addresses(record: Record) -> set[str]:
    return addresses_of(objects.decode(record.data))


def issue(requested: NodeCertificateRequest, ca: KeyPair, now: datetime, duration: timedelta) -> bytes:
    """Return a certificate (PEM) for *requested*, valid until *duration* after *now*.

    It contains only validated attributes, and is valid from slightly before *now*, to allow for clock skew.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return certify(
        ca,
        requested.request.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        requested.common_name,
        organizations=(_NODES_GROUP,),
        names=sorted(requested.names),
        server=requested.serving,
        client=not requested.serving,
        begin=now - min(_BACKDATE, duration / 10),
        end=now + duration,
    )
