"""Capability ``admission``."""

from __future__ import annotations

from nodeagent import hookimpl
from nodeagent.base.plugin_rpc import methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.messages import encode_pod

_METHODS = methods_of(api.DESCRIPTOR.services_by_name["Admission"])
_HOOK = "nodeagent_admit_pod"


class Admission:
    """Admits, rejects or delays pods; decides independently of other pods."""

    def __init__(self, call: HookCalls) -> None:
        self._call = call

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod) -> Rejection | None:
        response = await self._call(_HOOK, _METHODS["AdmitPod"], api.AdmitPodRequest(pod=encode_pod(pod)))
        if response.decision == api.ADMIT:
            return None
        if response.decision not in {api.REJECT, api.WAIT}:
            raise self._call.invalid(_HOOK, f"decision {response.decision}")
        retry = response.decision == api.WAIT
        return self._call.rejection(_HOOK, response.reason, response.message, retry=retry)
