"""Node registration: create the node object, or reconcile an existing one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from nodeagent.base import identity
from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.api import NODES, Api
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ApiConflict, ApiError
from nodeagent.model.node import NodeStatus
from nodeagent.model.wire import to_wire
from nodeagent.node.metadata import with_reports
from nodeagent.node.startup import NodeStartup

_INITIAL_BACKOFF_SECONDS = 0.1
_MAX_BACKOFF_SECONDS = 7.0

_log = logging.getLogger(__name__)


def initial_node(
    config: NodeAgentConfiguration, settings: NodeSettings, architecture: str, status: NodeStatus | None = None
) -> dict[str, Any]:
    """Return the node object for a new registration.

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
    """Return the default labels of every node."""
    label = identity.current().label
    return {
        label("hostname"): node_name,
        label("os"): "linux",
        label("arch"): architecture,
        label("os", "beta"): "linux",
        label("arch", "beta"): architecture,
    }


def reconciled_labels(settings: NodeSettings, architecture: str) -> dict[str, str]:
    """Return the labels that are also reconciled on an existing node: defaults, instance type and topology."""
    label = identity.current().label
    topology_labels = {
        *(label("instance-type", prefix) for prefix in ("node", "beta")),
        *(label(name, prefix) for name in ("zone", "region") for prefix in ("topology", "failure-domain.beta")),
    }
    defaults = default_labels(settings.node_name, architecture)
    configured = {key: value for key, value in settings.node_labels.items() if key in topology_labels | defaults.keys()}
    return defaults | configured


def reconcile_patch(
    node: Mapping[str, Any], config: NodeAgentConfiguration, settings: NodeSettings, architecture: str
) -> dict[str, Any]:
    """Return the patch that reconciles an existing *node*; taints and other labels are left unchanged."""
    metadata = node.get("metadata") or {}
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    patch: dict[str, Any] = {}
    desired = reconciled_labels(settings, architecture)
    if changed := {key: value or None for key, value in desired.items() if labels.get(key, "") != value}:
        patch["labels"] = changed
    owned = dict.fromkeys(_annotation_keys(), None) | _annotations(config, settings)
    if moved := {key: value for key, value in owned.items() if annotations.get(key) != value}:
        patch["annotations"] = moved
    return {"metadata": patch} if patch else {}


class Registration:
    """Registers the node, retrying until it succeeds.

    spec: config.registerNode
    """

    def __init__(
        self, api: Api, config: NodeAgentConfiguration, settings: NodeSettings, clock: Clock, startup: NodeStartup
    ) -> None:
        self._api, self._config, self._settings, self._clock = api, config, settings, clock
        self._startup = startup

    async def register(
        self, architecture: str, status: NodeStatus, reports: Mapping[str, NodeReport]
    ) -> dict[str, Any]:
        """Register the node and return the object from the API server.

        :param reports: the reports of plugins, whose taints a node may only set when it is created.
        """
        backoff = Backoff(_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS, jitter=0)
        failing = False
        self._startup.attempted()
        while True:
            try:
                node = await self._attempt(architecture, status, reports)
            except ApiError as error:
                if not failing:
                    fields = {"node": self._settings.node_name, "err": str(error)}
                    _log.error("Unable to register node with API server", extra=fields)
                failing = True
                await self._clock.sleep(backoff.next())
            else:
                return node

    async def _attempt(
        self, architecture: str, status: NodeStatus, reports: Mapping[str, NodeReport]
    ) -> dict[str, Any]:
        name = self._settings.node_name
        _log.info("Attempting to register node", extra={"node": name})
        try:
            initial = with_reports(initial_node(self._config, self._settings, architecture, status), reports)
            node = await self._api.create(NODES, initial)
        except ApiConflict:
            existing = await self._api.get(NODES, name, into=dict)
        else:
            self._startup.registered()
            _log.info("Successfully registered node", extra={"node": name})
            return node
        _log.info("Node was previously registered", extra={"node": name})
        patch = reconcile_patch(existing, self._config, self._settings, architecture)
        return await self._api.patch(NODES, name, patch) if patch else existing


def _taints(config: NodeAgentConfiguration, settings: NodeSettings) -> list[dict[str, str]]:
    """Return the taints of a new node; for equal key and effect, the first one takes precedence."""
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
    annotations = {}
    if config.enable_controller_attach_detach:
        annotations[managed] = "true"
    if settings.cloud_provider == "external" and settings.node_ips:
        annotations[provided_ip] = ",".join(settings.node_ips)
    return annotations


def _annotation_keys() -> tuple[str, str]:
    label = identity.current().label
    return label("controller-managed-attach-detach", "volumes"), label("provided-node-ip", "alpha")
