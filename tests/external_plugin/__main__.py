"""Serve the protocol on ``NODEAGENT_PLUGIN_SOCKET``; annotations of a pod select the behavior of its admission."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
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

    async def rank_pods(self, request: api.RankPodsRequest) -> api.RankPodsResponse:
        pods = [json.loads(each.pod)["metadata"] for each in request.candidates]
        pods.sort(key=lambda each: each.get("annotations", {}).get(BEHAVIOR) != "first")
        return api.RankPodsResponse(uids=[each["uid"] for each in pods])

    async def permit_eviction(self, request: api.PermitEvictionRequest) -> api.PermitEvictionResponse:
        if json.loads(request.pod)["metadata"].get("annotations", {}).get(BEHAVIOR) != "keep":
            return api.PermitEvictionResponse()
        return api.PermitEvictionResponse(vetoed=True, reason="StillNeeded", message="somebody reads it")

    async def get_credentials(self, request: api.GetCredentialsRequest) -> api.GetCredentialsResponse:
        known = json.loads(os.environ["CREDENTIALS"])
        if request.image not in known:
            raise CallRejected("unknown image", "INTERNAL")
        username, password = known[request.image]
        found = api.RegistryCredentials(username=username, password=password)
        return api.GetCredentialsResponse(credentials=[found])

    async def mutate_container(self, request: api.MutateContainerRequest) -> api.MutateContainerResponse:
        return api.MutateContainerResponse(set_env=[api.EnvVar(name="SHELF", value=request.config.image)])

    async def notify(self, request: api.NotifyRequest) -> api.NotifyResponse:
        event = request.WhichOneof("event")
        pod = getattr(getattr(request, event), "pod", b"{}") or b"{}"
        print("event", event, json.loads(pod).get("metadata", {}).get("name", ""), flush=True)
        return api.NotifyResponse()

    async def report_node(self, _request: api.ReportNodeRequest) -> api.ReportNodeResponse:
        if Path(os.environ["GO"]).with_name("cool").exists():
            return api.ReportNodeResponse()
        return api.ReportNodeResponse(
            labels={"plugin.test/rack": "r1"},
            taints=[api.Taint(key="plugin.test/hot", effect="PreferNoSchedule")],
            conditions=[api.NodeCondition(type="Hot", status=True, reason="TooHot", message="90 degrees")],
            extended_resources={"plugin.test/shelf": "2"},
        )

    async def check_node(self, _request: api.CheckNodeRequest) -> api.CheckNodeResponse:
        finding = api.Finding(severity=api.WARNING, text="the shelf is full", remedy="buy another one")
        return api.CheckNodeResponse(findings=[finding])

    async def set_up_volume(self, request: api.SetUpVolumeRequest) -> api.SetUpVolumeResponse:
        directory = Path(request.directory)
        directory.mkdir(exist_ok=True)
        (directory / "book").write_text("once upon a time\n")
        return api.SetUpVolumeResponse()

    async def tear_down_volume(self, request: api.TearDownVolumeRequest) -> api.TearDownVolumeResponse:
        shutil.rmtree(request.directory, ignore_errors=True)
        return api.TearDownVolumeResponse()

    async def watch_pods(self, _request: api.WatchPodsRequest) -> AsyncIterator[api.PodSet]:
        file = Path(os.environ["GO"]).with_name("pods.json")
        content = None
        while True:
            new = file.read_bytes() if file.exists() else b"[]"
            if new != content:
                content = new
                yield api.PodSet(pods=[json.dumps(each).encode() for each in json.loads(new)])
            await asyncio.sleep(0.1)


async def main() -> None:
    """Serve until the process is stopped."""
    plugin, services = TestPlugin(), api.DESCRIPTOR.services_by_name
    handlers = {
        services["Plugin"]: {"GetPluginInfo": plugin.get_plugin_info, "Register": plugin.register},
        services["Admission"]: {"AdmitPod": plugin.admit_pod},
        services["Eviction"]: {"RankPods": plugin.rank_pods, "PermitEviction": plugin.permit_eviction},
        services["Credentials"]: {"GetCredentials": plugin.get_credentials},
        services["ContainerMutation"]: {"MutateContainer": plugin.mutate_container},
        services["Notifications"]: {"Notify": plugin.notify},
        services["NodeReport"]: {"ReportNode": plugin.report_node},
        services["NodeChecks"]: {"CheckNode": plugin.check_node},
        services["Volumes"]: {"SetUpVolume": plugin.set_up_volume, "TearDownVolume": plugin.tear_down_volume},
        services["PodSource"]: {"WatchPods": plugin.watch_pods},
    }
    await serve_until_cancelled(Path(os.environ["NODEAGENT_PLUGIN_SOCKET"]), handlers, SystemClock())


if __name__ == "__main__":
    asyncio.run(main())
