"""Permission to create, for patches and updates of objects that do not exist; always enabled."""

from __future__ import annotations

from dataclasses import replace

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.cel.authorization import Decide
from apiserver_stub.verbs.admission import AdmissionRequest


class CreatePermission(AdmissionPlugin):
    """Require the permission to create an object; the request was authorized as a patch or update."""

    name = "CreatePermission"
    operations = ("CREATE",)

    def __init__(self, authorize: Decide) -> None:
        self._authorize = authorize

    async def validate(self, call: AdmissionRequest) -> None:
        info = call.request.info
        if info.verb not in ("patch", "update"):
            return
        allowed, reason = await self._authorize(call.request.user, replace(info, verb="create"))
        if not allowed:
            raise call.forbidden(reason)
