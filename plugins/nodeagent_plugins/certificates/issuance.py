"""Certificates API: create a certificate signing request and wait for the certificate."""

from __future__ import annotations

import base64
from typing import Any

from nodeagent.base.aio import Clock
from nodeagent.contracts.api import Api, Resource, WatchType
from nodeagent.errors import ApiConflict, ApiError, ApiUnavailable
from nodeagent_plugins.certificates.pairs import CertificateError, CertificateSpec, Request

AGAIN_SECONDS = 2.0
"""Interval of retries while the API server is unavailable."""
REQUESTS = Resource("certificates", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False)


class RequestRejectedError(CertificateError):
    """The request was denied, failed, deleted or issued with other content; another request may succeed."""

    reason = "CertificateRefused"


async def post(api: Api, request: Request, desired: CertificateSpec, *, named: bool) -> tuple[str, str]:
    """Create the request and return its name and UID.

    :param named: the name is the digest of the content, so an existing request is reused.
    """
    spec = {
        "request": base64.b64encode(request.text.encode()).decode(),
        "signerName": desired.signer,
        "usages": list(desired.usages),
    }
    meta = {"name": request.name} if named else {"generateName": "csr-"}
    try:
        made = await api.create(REQUESTS, {"metadata": meta, "spec": spec})
    except ApiConflict:
        if not named:
            raise
        made = await api.get(REQUESTS, request.name, into=dict)
        if made["spec"].get("signerName") != desired.signer:
            raise CertificateError(f"certificate signing request {request.name} has other content") from None
    return made["metadata"]["name"], made["metadata"]["uid"]


async def issued(api: Api, clock: Clock, name: str, uid: str) -> str:
    """Return the certificate (PEM) of the request *name* once issued; an unavailable API server is retried.

    :raises RequestRejectedError: the request was denied, failed or deleted.
    :raises ApiError: the API server does not permit reading the request.
    """
    while True:
        try:
            return await _follow(api, name, uid)
        except ApiError as error:
            if not error.transient:
                raise
        await clock.sleep(AGAIN_SECONDS)


async def _follow(api: Api, name: str, uid: str) -> str:
    selector = f"metadata.name={name}"
    listing = await api.list(REQUESTS, into=dict, field_selector=selector)
    if not listing.items:
        raise RequestRejectedError(f"certificate signing request {name} was deleted")
    if (found := _certificate(listing.items[0], uid)) is not None:
        return found
    watch = api.watch(REQUESTS, into=dict, resource_version=listing.resource_version, field_selector=selector)
    async for event in watch:
        if event.type is WatchType.DELETED:
            raise RequestRejectedError(f"certificate signing request {name} was deleted")
        if event.type is not WatchType.BOOKMARK and (found := _certificate(event.object, uid)) is not None:
            return found
    raise ApiUnavailable(f"watch certificatesigningrequests {name}: ended")


def _certificate(request: dict[str, Any], uid: str) -> str | None:
    """Return the certificate of *request*, ``None`` while it is pending."""
    name = request["metadata"]["name"]
    if request["metadata"]["uid"] != uid:
        raise RequestRejectedError(f"certificate signing request {name} was replaced by another one")
    status = request.get("status") or {}
    approved = False
    for condition in status.get("conditions") or ():
        if condition["type"] in ("Denied", "Failed"):
            text = condition.get("message") or condition.get("reason") or "no reason"
            raise RequestRejectedError(f"certificate signing request {name} {condition['type'].lower()}: {text}")
        approved |= condition["type"] == "Approved"
    if not approved or not status.get("certificate"):
        return None
    return base64.b64decode(status["certificate"]).decode("ascii", errors="replace")
