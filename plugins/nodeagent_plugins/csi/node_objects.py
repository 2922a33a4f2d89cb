"""The node's entries for drivers: annotation and labels of the Node, and the CSINode object."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from nodeagent.base import identity
from nodeagent.base.aio import Backoff
from nodeagent.base.release import Release
from nodeagent.contracts.api import CSI_NODES, NODES, Api
from nodeagent.errors import ApiConflict, ApiError, ApiNotFound
from nodeagent_plugins.csi.drivers import NodeInfo
from nodeagent_plugins.csi.node_labels import check_topology

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

TRIES = 4
MAX_COUNT = 2147483647
NOT_INITIALIZED = "CSINode is not yet initialized"
_MIGRATED = ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "vsphere-volume")
_PORTWORX_SINCE = Release(1, 33)

_log = logging.getLogger(__name__)


class NodeObjectError(Exception):
    """The objects of the node could not be updated."""


class NodeObjects:
    """Writes the entries of drivers into Node and CSINode, one change at a time.

    :param api: the client of the API server.
    """

    name = "CSINode"

    def __init__(self, context: CgroupsContext, api: Api) -> None:
        self._context, self._api, self._clock = context, api, context.clock
        self._node = context.node_name
        self._lock = asyncio.Lock()
        self._uid = ""
        self.problem = NOT_INITIALIZED
        """Reason why the node is not Ready; empty once CSINode exists."""

    # --- start ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Create or correct CSINode, retrying until it succeeds; then wait until cancelled."""
        await self._context.wait_for_node()
        pauses, registration = Backoff(0.03, 30.0, factor=4.0), Backoff(0.1, 2.0)
        while self.problem:
            try:
                if not await self._is_registered():
                    await self._clock.sleep(registration.next())
                    continue
                async with self._lock:
                    await self._initialize()
            except (ApiError, NodeObjectError) as error:
                if isinstance(error, NodeObjectError) or not error.transient:
                    self.problem = f"failed to initialize CSINode: {error}"
                    self._context.trigger_node_status()
                _log.warning("Failed to initialize CSINode", extra={"node": self._node, "err": str(error)})
                await self._clock.sleep(pauses.next())
                continue
            self.problem = ""
            self._context.trigger_node_status()
        await asyncio.Event().wait()

    async def _is_registered(self) -> bool:
        try:
            await self._api.get(NODES, self._node, into=dict)
        except ApiNotFound:
            return False
        return True

    async def _initialize(self) -> None:
        current = await self._read()
        if self._annotate(current):
            await self._api.update(CSI_NODES, self._node, current)

    # --- drivers ----------------------------------------------------------------------------------------------

    async def install(self, driver: str, info: NodeInfo) -> None:
        """Add or replace the entries of a driver: first the Node, then CSINode.

        :raises NodeObjectError: an object could not be updated; the message has the reasons of all attempts.
        """
        if not info.node_id:
            raise NodeObjectError("error adding CSI driver node info: driverNodeID must not be empty")
        await self._retry(
            lambda: self._update_node(driver, info), "error updating Node object with CSI driver node info"
        )
        await self.update(driver, info)

    async def update(self, driver: str, info: NodeInfo) -> None:
        """Add or replace the entry of a driver in CSINode.

        :raises NodeObjectError: the object could not be updated.
        """
        await self._retry(
            lambda: self._update_csi_node(driver, info), "error updating CSINode object with CSI driver node info"
        )

    async def uninstall(self, driver: str) -> None:
        """Remove the entries of a driver: first from CSINode, then from the Node. Labels are not removed.

        :raises NodeObjectError: an object could not be updated.
        """
        await self._retry(lambda: self._remove_entry(driver), "error uninstalling CSI driver from CSINode object")
        await self._retry(
            lambda: self._update_node(driver, None), "error removing CSI driver node info from Node object"
        )

    async def _retry(self, attempt: Callable[[], Awaitable[None]], problem: str) -> None:
        pauses = Backoff(0.01, 10.0, factor=5.0)
        errors: list[str] = []
        for number in range(TRIES):
            try:
                async with self._lock:
                    await attempt()
            except (ApiError, NodeObjectError, ValueError) as error:
                if str(error) not in errors:
                    errors.append(str(error))
                if number < TRIES - 1:
                    await self._clock.sleep(pauses.next())
            else:
                return
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise NodeObjectError(f"{problem}: timed out waiting for the condition; caused by: {text}")

    # --- Node -------------------------------------------------------------------------------------------------

    async def _update_node(self, driver: str, info: NodeInfo | None) -> None:
        """Set the node ID and the topology labels of a driver; without *info*, remove the node ID.

        A patch of the status subresource may change both, as that of the kubelet does.
        """
        try:
            node = await self._api.get(NODES, self._node, into=dict)
        except ApiNotFound:
            if info is None:
                return
            raise
        meta = node.get("metadata") or {}
        key = identity.current().label("nodeid", "csi.volume")
        annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
        ids = _decode_ids(key, annotations.get(key, ""))
        changed = {name: value for name, value in ids.items() if name != driver}
        patch: dict[str, Any] = {}
        if info is not None:
            check_topology(info.topology, labels)
            changed[driver] = info.node_id
            if added := {name: value for name, value in info.topology.items() if name not in labels}:
                patch["labels"] = added
        if changed != ids:
            text = json.dumps(changed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            patch["annotations"] = {key: text if changed else None}
        if patch:
            await self._api.patch(NODES, self._node, {"metadata": patch}, subresource="status")

    # --- CSINode ----------------------------------------------------------------------------------------------

    async def _update_csi_node(self, driver: str, info: NodeInfo) -> None:
        current = await self._read()
        entry = csi_node_entry(driver, info)
        spec = current.setdefault("spec", {})
        entries = spec.get("drivers") or []
        others = [each for each in entries if each.get("name") != driver]
        known = [each for each in entries if each.get("name") == driver]
        annotated = self._annotate(current)
        if not annotated and [_comparable(each) for each in known] == [_comparable(entry)]:
            return
        spec["drivers"] = [*others, entry]
        await self._api.update(CSI_NODES, self._node, current)

    async def _remove_entry(self, driver: str) -> None:
        try:
            current = await self._api.get(CSI_NODES, self._node, into=dict)
        except ApiNotFound:
            return
        spec = current.get("spec") or {}
        others = [each for each in spec.get("drivers") or () if each.get("name") != driver]
        if len(others) != len(spec.get("drivers") or ()):
            await self._api.update(CSI_NODES, self._node, {**current, "spec": {**spec, "drivers": others}})

    async def _read(self) -> dict[str, Any]:
        """Return CSINode, created if it does not exist.

        :raises NodeObjectError: it belonged to an earlier Node of this name and was deleted.
        """
        if not self._uid:
            node = await self._api.get(NODES, self._node, into=dict)
            self._uid = (node.get("metadata") or {}).get("uid", "")
        try:
            current: dict[str, Any] = await self._api.get(CSI_NODES, self._node, into=dict)
        except ApiNotFound:
            return await self._create()
        owners = (current.get("metadata") or {}).get("ownerReferences") or []
        uids = [owner.get("uid") for owner in owners if owner.get("kind") == NODES.kind]
        if self._uid in uids:
            return current
        node = await self._api.get(NODES, self._node, into=dict)
        actual = (node.get("metadata") or {}).get("uid", "")
        if actual != self._uid:  # The Node was created again while the agent runs.
            self._uid = actual
            if actual in uids:
                return current
        await self._api.delete(CSI_NODES, self._node, uid=(current.get("metadata") or {}).get("uid", ""))
        raise NodeObjectError(
            f'CSINode "{self._node}" was owned by different node '
            f'(oldNodeID="{uids[-1] if uids else ""}", newNodeID="{self._uid}"), deleted it'
        )

    async def _create(self) -> dict[str, Any]:
        owner = {"apiVersion": "v1", "kind": NODES.kind, "name": self._node, "uid": self._uid}
        created: dict[str, Any] = {
            "metadata": {"name": self._node, "ownerReferences": [owner]},
            "spec": {"drivers": []},
        }
        self._annotate(created)
        try:
            return await self._api.create(CSI_NODES, created)
        except ApiConflict:  # Created concurrently, or by an earlier attempt whose response was lost.
            return await self._api.get(CSI_NODES, self._node, into=dict)

    def _annotate(self, csi_node: dict[str, Any]) -> bool:
        """Set the annotation with the in-tree names that this node handles with CSI; return whether it changed."""
        names = [*_MIGRATED, *(["portworx-volume"] if self._context.release.release >= _PORTWORX_SINCE else [])]
        value = ",".join(sorted(identity.current().label(name) for name in names))
        meta = csi_node.setdefault("metadata", {})
        annotations = dict(meta.get("annotations") or {})
        key = f"storage.alpha.{identity.current().label_domain}/migrated-plugins"
        if set(annotations.get(key, "").split(",")) == set(value.split(",")):
            return False
        meta["annotations"] = {**annotations, key: value}
        return True


def csi_node_entry(driver: str, info: NodeInfo) -> dict[str, Any]:
    """Return the entry of a driver in CSINode."""
    entry: dict[str, Any] = {"name": driver, "nodeID": info.node_id, "topologyKeys": sorted(info.topology)}
    if info.max_volumes > 0:
        entry["allocatable"] = {"count": min(info.max_volumes, MAX_COUNT)}
    elif info.max_volumes < 0:
        _log.error("Invalid attach limit", extra={"driver": driver, "limit": info.max_volumes})
    return entry


def _comparable(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    count = (entry.get("allocatable") or {}).get("count")
    return entry.get("nodeID"), sorted(entry.get("topologyKeys") or ()), count


def _decode_ids(key: str, text: str) -> dict[str, str]:
    try:
        decoded = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f'failed to parse node\'s "{key}" annotation value ("{text}") err={error}') from None
    return dict(decoded) if isinstance(decoded, dict) else {}
