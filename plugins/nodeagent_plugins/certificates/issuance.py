"""The certificates API: post a request, wait until somebody approved and signed it."""

from __future__ import annotations

import base64
from typing import Any

from nodeagent.base.aio import Clock
from nodeagent.contracts.api import Api, Resource, WatchType
from nodeagent.errors import ApiConflict, ApiError, ApiUnavailable
from nodeagent_plugins.certificates.pairs import CertificateError, Request, Wanted

AGAIN_SECONDS = 2.0
"""How soon an API server that went away is asked again."""
REQUESTS = Resource("certificates", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False)


class Refused(CertificateError):
    """Somebody denied the request, or it cannot be signed; another one may fare better."""

    reason = "CertificateRefused"


async def post(api: Api, request: Request, wanted: Wanted, *, named: bool) -> tuple[str, str]:
    """Create the request and return its name and UID.

    :param named: by the digest of its content: one that is there already is taken up instead.
    """
    spec = {
        "request": base64.b64encode(request.text.encode()).decode(),
        "signerName": wanted.signer,
        "usages": list(wanted.usages),
    }
    meta = {"name": request.name} if named else {"generateName": "csr-"}
    try:
        made = await api.create(REQUESTS, {"metadata": meta, "spec": spec})
    except ApiConflict:
        if not named:
            raise
        made = await api.get(REQUESTS, request.name, into=dict)
        if made["spec"].get("signerName") != wanted.signer:
            raise CertificateError(f"certificate request {request.name} is there already and is another one") from None
    return made["metadata"]["name"], made["metadata"]["uid"]


async def issued(api: Api, clock: Clock, name: str, uid: str) -> str:
    """Return the certificate (PEM) once the request *name* has one; an API server that is away is waited for.

    :raises Refused: it was denied or failed, or is gone.
    :raises ApiError: the API server does not let us look.
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
        raise Refused(f"certificate request {name} was removed")
    if (found := _certificate(listing.items[0], uid)) is not None:
        return found
    watch = api.watch(REQUESTS, into=dict, resource_version=listing.resource_version, field_selector=selector)
    async for event in watch:
        if event.type is WatchType.DELETED:
            raise Refused(f"certificate request {name} was removed")
        if event.type is not WatchType.BOOKMARK and (found := _certificate(event.object, uid)) is not None:
            return found
    raise ApiUnavailable(f"watch certificatesigningrequests {name}: ended")


def _certificate(request: dict[str, Any], uid: str) -> str | None:
    """Return the certificate that *request* got, ``None`` while it waits."""
    name = request["metadata"]["name"]
    if request["metadata"]["uid"] != uid:
        raise Refused(f"certificate request {name} was replaced by another one")
    status = request.get("status") or {}
    approved = False
    for condition in status.get("conditions") or ():
        if condition["type"] in ("Denied", "Failed"):
            text = condition.get("message") or condition.get("reason") or "no reason is given"
            raise Refused(f"certificate request {name} {condition['type'].lower()}: {text}")
        approved |= condition["type"] == "Approved"
    if not approved or not status.get("certificate"):
        return None
    return base64.b64decode(status["certificate"]).decode("ascii", errors="replace")
