"""Capability ``eviction``."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.base.plugin_rpc import methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.eviction import EvictionCandidate
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.messages import encode_pod

_METHODS = methods_of(api.DESCRIPTOR.services_by_name["Eviction"])
_RANK, _PERMIT = "nodeagent_rank_pods_for_eviction", "nodeagent_permit_eviction"


class Eviction:
    """Ranks the pods to evict, and vetoes evictions."""

    def __init__(self, call: HookCalls) -> None:
        self._call = call

    @hookimpl
    async def nodeagent_rank_pods_for_eviction(
        self, signal: str, candidates: Sequence[EvictionCandidate]
    ) -> Sequence[EvictionCandidate] | None:
        request = api.RankPodsRequest(
            signal=signal,
            candidates=[
                api.EvictionCandidate(pod=encode_pod(each.pod), memory_bytes=_memory(each)) for each in candidates
            ],
        )
        response = await self._call(_RANK, _METHODS["RankPods"], request)
        if not response.uids:
            return None
        by_uid = {each.pod.uid: each for each in candidates}
        if sorted(response.uids) != sorted(by_uid):
            raise self._call.invalid(_RANK, f"{len(response.uids)} UIDs that are not those of the candidates")
        return [by_uid[uid] for uid in response.uids]

    @hookimpl
    async def nodeagent_permit_eviction(self, pod: Pod, signal: str) -> Rejection | None:
        request = api.PermitEvictionRequest(pod=encode_pod(pod), signal=signal)
        response = await self._call(_PERMIT, _METHODS["PermitEviction"], request)
        return self._call.rejection(_PERMIT, response.reason, response.message) if response.vetoed else None


def _memory(candidate: EvictionCandidate) -> int:
    memory = candidate.usage.memory if candidate.usage is not None else None
    return (memory.working_set_bytes or 0) if memory is not None else 0
