"""PodCertificateRequests of this node: creation and a watch of their status."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nodeagent.base.release import Release
from nodeagent.base.structs import Struct
from nodeagent.contracts.api import SERVICE_ACCOUNTS, Api, Resource, WatchEvent, WatchType
from nodeagent.contracts.list_watch import follow
from nodeagent.errors import ApiError
from nodeagent.model.pod import Pod, PodCertificate
from nodeagent_plugins.volumes.pem import decode_blocks, encode_certificates

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext
    from nodeagent_plugins.volumes.pod_certificates.keys import PodKey

DEFAULT_SECONDS = 86400
ISSUED = "Issued"
FINAL = (ISSUED, "Denied", "Failed")
_NEVER = datetime.max.replace(tzinfo=UTC)
_BETA = Release(1, 35)
"""First release whose server has version v1beta1."""
_STUB_REQUESTS = Release(1, 36)
"""First release whose requests contain a PKCS #10 request instead of a public key."""


class Outcome(Struct, frozen=True):
    """The final condition of a request, and the certificate if it was issued."""

    condition: str
    reason: str = ""
    message: str = ""
    chain: bytes = b""
    refresh_at: datetime = _NEVER
    expires_at: datetime = _NEVER


class SentRequest(Struct, frozen=True):
    """A request that was created."""

    namespace: str
    name: str
    created_at: datetime
    key: PodKey


class CertificateRequests:
    """Creates requests, and watches those of this node from the first one on."""

    def __init__(self, context: CgroupsContext, api: Api) -> None:
        self._context, self._api = context, api
        release = context.release.release
        version = "v1beta1" if release >= _BETA else "v1alpha1"
        self.resource = Resource("certificates", version, "podcertificaterequests", "PodCertificateRequest")
        self._stub = release >= _STUB_REQUESTS
        self._objects: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._following = False
        self.changed = asyncio.Event()
        """Replaced by a new event after each change."""

    async def create(self, pod: Pod, source: PodCertificate) -> SentRequest:
        """Generate a key and request its certificate.

        :raises ApiError: the request cannot be created now.
        """
        from nodeagent_plugins.volumes.pod_certificates.keys import generate_key  # Loads a large library.

        account = pod.spec.service_account_name or pod.spec.service_account or "default"
        found = await self._api.get(SERVICE_ACCOUNTS, account, pod.namespace, into=dict[str, Any], cached=True)
        node = (self._context.node() or {}).get("metadata") or {}
        if not node.get("uid"):
            raise ApiError("the node is not registered yet")
        try:
            key = await asyncio.to_thread(generate_key, source.key_type, pod.uid)
        except ValueError as error:
            raise ApiError(f"while generating keypair: {error}") from error
        if not self._following:
            self._following = True
            self._context.tasks.start(self._follow(), "watch/pod-certificates")
        created = await self._api.create(
            self.resource,
            {
                "metadata": {
                    "generateName": "req-",
                    "namespace": pod.namespace,
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
                },
                "spec": {
                    "signerName": source.signer_name,
                    "podName": pod.name,
                    "podUID": pod.uid,
                    "serviceAccountName": account,
                    "serviceAccountUID": found["metadata"]["uid"],
                    "nodeName": self._context.node_name,
                    "nodeUID": node["uid"],
                    "maxExpirationSeconds": source.max_expiration_seconds or DEFAULT_SECONDS,
                    **self._proof(key),
                    **({"unverifiedUserAnnotations": source.user_annotations} if source.user_annotations else {}),
                },
            },
            pod.namespace,
        )
        meta = created["metadata"]
        return SentRequest(pod.namespace, meta["name"], _time(meta["creationTimestamp"]), key)

    def exists(self, request: SentRequest) -> bool:
        """Return whether the watch has reported *request*."""
        return (request.namespace, request.name) in self._objects

    def outcome(self, request: SentRequest) -> Outcome | None:
        """Return the result of *request*, or ``None`` while it is pending.

        :raises ApiError: the signer's status is invalid.
        """
        status = self._objects.get((request.namespace, request.name), {}).get("status") or {}
        for condition in status.get("conditions") or ():
            kind = condition.get("type", "")
            if kind not in FINAL:
                continue
            reason, message = condition.get("reason", ""), condition.get("message", "")
            if kind != ISSUED:
                return Outcome(kind, reason, message)
            try:
                times = _time(status["beginRefreshAt"]), _time(status["notAfter"])
            except (KeyError, ValueError) as error:
                raise ApiError(f"invalid status of PodCertificateRequest {request.name}: {error}") from error
            chain = encode_certificates(decode_blocks(status.get("certificateChain", "")))
            return Outcome(kind, reason, message, chain, *times)
        return None

    def _proof(self, key: PodKey) -> dict[str, str]:
        if self._stub:
            return {"stubPKCS10Request": base64.b64encode(key.stub_request).decode()}
        return {
            "pkixPublicKey": base64.b64encode(key.public_der).decode(),
            "proofOfPossession": base64.b64encode(key.signed_pod_uid).decode(),
        }

    async def _follow(self) -> None:
        await follow(
            self._api,
            self.resource,
            "",
            clock=self._context.clock,
            field_selector=f"spec.nodeName={self._context.node_name}",
            listed=self._replace,
            changed=self._change,
        )

    def _replace(self, objects: list[dict[str, Any]]) -> None:
        self._objects = {_key(obj): obj for obj in objects}
        self._notify()

    def _change(self, event: WatchEvent[dict[str, Any]]) -> None:
        if event.type is WatchType.DELETED:
            self._objects.pop(_key(event.object), None)
        else:
            self._objects[_key(event.object)] = event.object
        self._notify()

    def _notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def _key(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
