"""Serve the protocol on ``NODEAGENT_PLUGIN_SOCKET``; annotations of a pod select the behavior of its admission."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from nodeagent.base.aio import SystemClock
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.base.rpc_server import CallRejected, serve_until_cancelled

BEHAVIOR = "plugin.test/behavior"


class TestPlugin:
    """Handlers of all methods."""

    async def get_plugin_info(self, _request: api.GetPluginInfoRequest) -> api.GetPluginInfoResponse:
        return api.GetPluginInfoResponse(
            name=os.environ["NODEAGENT_PLUGIN_NAME"],
            version="1.0",
            supported_versions=["v1", "v2"],
            capabilities=list(api.Capability.values()),
        )

    async def register(self, request: api.RegisterRequest) -> api.RegisterResponse:
        settings = json.loads(request.settings)
        if "invalid" in settings:
            raise CallRejected("settings.invalid: must not be set", "INVALID_ARGUMENT")
        return api.RegisterResponse()

    async def admit_pod(self, request: api.AdmitPodRequest) -> api.AdmitPodResponse:
        behavior = json.loads(request.pod)["metadata"].get("annotations", {}).get(BEHAVIOR, "admit")
        match behavior:
            case "crash":
                os._exit(3)
            case "hang":
                await asyncio.Event().wait()
            case "invalid":
                return api.AdmitPodResponse(decision=99)
            case "flood":
                for _ in range(20000):
                    print("x" * 200)
                sys.stdout.flush()
            case "reject":
                return api.AdmitPodResponse(decision=api.REJECT, reason="NotToday", message="try another node")
            case "wait":
                if not Path(os.environ["GO"]).exists():
                    return api.AdmitPodResponse(decision=api.WAIT, reason="Later", message="not yet")
        return api.AdmitPodResponse(decision=api.ADMIT)


async def main() -> None:
    """Serve until the process is stopped."""
    plugin, services = TestPlugin(), api.DESCRIPTOR.services_by_name
    handlers = {
        services["Plugin"]: {"GetPluginInfo": plugin.get_plugin_info, "Register": plugin.register},
        services["Admission"]: {"AdmitPod": plugin.admit_pod},
    }
    await serve_until_cancelled(Path(os.environ["NODEAGENT_PLUGIN_SOCKET"]), handlers, SystemClock())


if __name__ == "__main__":
    asyncio.run(main())
