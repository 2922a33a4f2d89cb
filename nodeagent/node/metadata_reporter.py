"""Reporter of the node's labels, annotations and taints that plugins contribute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from nodeagent.contracts.api import NODES, Api, PatchType
from nodeagent.contracts.node import NodeReport
from nodeagent.errors import ApiError
from nodeagent.node.metadata import metadata_patch, taints_patch
from nodeagent.node.watcher import NodeWatcher

_PATCH_SECONDS = 10.0

_log = logging.getLogger(__name__)


class NodeMetadataReporter:
    """Sends changes of the metadata; a failure is logged once and retried at the next status."""

    def __init__(self, node_name: str, api: Callable[[], Api | None]) -> None:
        self._node_name, self._api = node_name, api
        self._failures: dict[str, str] = {}

    async def report(self, watcher: NodeWatcher, reports: Mapping[str, NodeReport], reporting: Collection[str]) -> None:
        """Send the differences between the node object and *reports*.

        :param reports: the reports of plugins that responded, by plugin.
        :param reporting: names of all plugins that report.
        """
        for subject, make in (("labels and annotations", metadata_patch), ("taints", taints_patch)):
            if watcher.node is not None and (patch := make(watcher.node, reports, reporting)):
                await self._send(watcher, subject, patch)

    async def _send(self, watcher: NodeWatcher, subject: str, patch: Mapping[str, Any]) -> None:
        api = self._api()
        if api is None:
            return
        try:
            async with asyncio.timeout(_PATCH_SECONDS):
                watcher.node = await api.patch(NODES, self._node_name, patch, patch_type=PatchType.MERGE)
        except (ApiError, TimeoutError) as error:
            text = str(error) or "timeout"
            if self._failures.get(subject) != text:
                fields = {"node": self._node_name, "subject": subject, "err": text}
                _log.error("Failed to update node metadata that plugins report, will retry", extra=fields)
            self._failures[subject] = text
            return
        self._failures.pop(subject, None)
        _log.info("Updated node metadata that plugins report", extra={"node": self._node_name, "subject": subject})
