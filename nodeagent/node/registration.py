"""Putting the node into the API, or bringing the one that is there up to date."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from nodeagent.base import identity
from nodeagent.base.aio import Backoff, Clock
from nodeagent.config.settings import NodeSettings
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.contracts.api import NODES, Api
from nodeagent.errors import ApiConflict, ApiError
from nodeagent.model.node import NodeStatus
from nodeagent.model.wire import to_wire
from nodeagent.node.startup import NodeStartup

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 7.0

_log = logging.getLogger(__name__)


def initial_node(
    config: NodeAgentConfiguration, settings: NodeSettings, architecture: str, status: NodeStatus | None = None
) -> dict[str, Any]:
    """Return the node as it is first registered.

    spec: config.registerWithTaints, config.providerID
    """
    spec: dict[str, Any] = {}
    if taints := _taints(config, settings):
        spec["taints"] = taints
    if config.provider_id:
        spec["providerID"] = config.provider_id
    if not settings.register_schedulable:
        spec["unschedulable"] = True
    metadata: dict[str, Any] = {
        "name": settings.node_name,
        "labels": {**default_labels(settings.node_name, architecture), **settings.node_labels},
    }
    if annotations := _annotations(config, settings):
        metadata["annotations"] = annotations
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
    if status is not None:
        node["status"] = to_wire(status)
    return node


def default_labels(node_name: str, architecture: str) -> dict[str, str]:
    """Return the labels that every node has."""
    label = identity.current().label
    return {
        label("hostname"): node_name,
        label("os"): "linux",
        label("arch"): architecture,
        label("os", "beta"): "linux",
        label("arch", "beta"): architecture,
    }


def kept_labels(settings: NodeSettings, architecture: str) -> dict[str, str]:
    """Return the labels that a node which is there already is given too: what it is and where it stands."""
    label = identity.current().label
    places = {
        *(label("instance-type", prefix) for prefix in ("node", "beta")),
        *(label(name, prefix) for name in ("zone", "region") for prefix in ("topology", "failure-domain.beta")),
    }
    defaults = default_labels(settings.node_name, architecture)
    given = {key: value for key, value in settings.node_labels.items() if key in places | defaults.keys()}
    return defaults | given


def reconcile_patch(
    node: Mapping[str, Any], config: NodeAgentConfiguration, settings: NodeSettings, architecture: str
) -> dict[str, Any]:
    """Return what brings an existing *node* up to date; its taints and other labels are left alone."""
    metadata = node.get("metadata") or {}
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    patch: dict[str, Any] = {}
    wanted = kept_labels(settings, architecture)
    if changed := {key: value or None for key, value in wanted.items() if labels.get(key, "") != value}:
        patch["labels"] = changed
    owned = dict.fromkeys(_annotation_keys(), None) | _annotations(config, settings)
    if moved := {key: value for key, value in owned.items() if annotations.get(key) != value}:
        patch["annotations"] = moved
    return {"metadata": patch} if patch else {}


class Registration:
    """Registers the node; tries until it succeeds.

    spec: config.registerNode
    """

    def __init__(
        self, api: Api, config: NodeAgentConfiguration, settings: NodeSettings, clock: Clock, startup: NodeStartup
    ) -> None:
        self._api, self._config, self._settings, self._clock = api, config, settings, clock
        self._startup = startup

    async def register(self, architecture: str, status: NodeStatus) -> dict[str, Any]:
        """Return the node as the server has it, once it has it."""
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, jitter=0)
        failing = False
        self._startup.attempted()
        while True:
            try:
                node = await self._attempt(architecture, status)
            except ApiError as error:
                if not failing:
                    _log.error("Cannot register the node", extra={"node": self._settings.node_name, "err": str(error)})
                failing = True
                await self._clock.sleep(backoff.next())
            else:
                _log.info("Node is registered", extra={"node": self._settings.node_name})
                return node

    async def _attempt(self, architecture: str, status: NodeStatus) -> dict[str, Any]:
        name = self._settings.node_name
        try:
            node = await self._api.create(NODES, initial_node(self._config, self._settings, architecture, status))
        except ApiConflict:
            known = await self._api.get(NODES, name, into=dict)
        else:
            self._startup.registered()
            return node
        patch = reconcile_patch(known, self._config, self._settings, architecture)
        return await self._api.patch(NODES, name, patch) if patch else known


def _taints(config: NodeAgentConfiguration, settings: NodeSettings) -> list[dict[str, str]]:
    """Return the taints of a new node; of two with one key and effect the first counts."""
    label = identity.current().label
    taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in config.register_with_taints]
    if not settings.register_schedulable:
        taints.append({"key": label("unschedulable", "node"), "effect": "NoSchedule"})
    if settings.cloud_provider == "external":
        key = label("uninitialized", "node.cloudprovider")
        taints.append({"key": key, "value": "true", "effect": "NoSchedule"})
    distinct: dict[tuple[str, str], dict[str, str]] = {}
    for taint in taints:
        distinct.setdefault((taint["key"], taint["effect"]), {name: text for name, text in taint.items() if text})
    return list(distinct.values())


def _annotations(config: NodeAgentConfiguration, settings: NodeSettings) -> dict[str, str]:
    managed, provided_ip = _annotation_keys()
    found = {}
    if config.enable_controller_attach_detach:
        found[managed] = "true"
    if settings.cloud_provider == "external" and settings.node_ips:
        found[provided_ip] = ",".join(settings.node_ips)
    return found


def _annotation_keys() -> tuple[str, str]:
    label = identity.current().label
    return label("controller-managed-attach-detach", "volumes"), label("provided-node-ip", "alpha")
