"""Tests for the CRI plugin."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.duration import Duration
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import AgentContext
from nodeagent.errors import ConfigError
from nodeagent.testing.context import make_context
from nodeagent_plugins.cri import plugin


@pytest.fixture
def context(tmp_path) -> AgentContext:
    return make_context(tmp_path, config=NodeAgentConfiguration(container_runtime_endpoint="unix:///run/a.sock"))


def change(context: AgentContext, **fields: object) -> None:
    context.config = msgspec.structs.replace(context.config, **fields)


def test_hook_nodeagent_provide_runtime(context):
    change(context, runtime_request_timeout=Duration.of(seconds=7))

    runtime = plugin.nodeagent_provide_runtime(context)

    assert (runtime.connection.endpoint, runtime.connection.timeout_seconds) == ("unix:///run/a.sock", 7)


@pytest.mark.parametrize(
    ("node_ips", "first"), [((), "10.0.0.1"), (("10.9.9.9", "fd09::9"), "10.0.0.1"), (("fd09::9",), "fd00::1")]
)
async def test_first_pod_address_has_the_primary_family_of_the_node(context, monkeypatch, node_ips, first):
    context.settings = replace(context.settings, node_ips=node_ips)
    runtime = plugin.nodeagent_provide_runtime(context)
    network = cri.PodSandboxNetworkStatus(ip="fd00::1", additional_ips=[cri.PodIP(ip="10.0.0.1")])
    response = cri.PodSandboxStatusResponse(status=cri.PodSandboxStatus(network=network))

    async def call(*_):
        return response

    monkeypatch.setattr(runtime.connection, "call", call)

    assert (await runtime.sandbox_status("s1")).ips[0] == first


def test_hook_nodeagent_provide_image_service(context):
    context.runtime = plugin.nodeagent_provide_runtime(context)
    change(context, image_service_endpoint="/run/b.sock")

    images = plugin.nodeagent_provide_image_service(context)

    assert images.connection.endpoint == "unix:///run/b.sock"


@pytest.mark.parametrize("endpoint", ["", "unix:///run/a.sock", "/run/a.sock"])
def test_image_service_shares_the_connection_of_a_runtime_on_its_endpoint(context, endpoint):
    context.runtime = plugin.nodeagent_provide_runtime(context)
    change(context, image_service_endpoint=endpoint)

    assert plugin.nodeagent_provide_image_service(context).connection is context.runtime.connection


def test_image_service_works_with_the_runtime_of_another_plugin(context):
    assert plugin.nodeagent_provide_image_service(context).connection.endpoint == "unix:///run/a.sock"


def test_invalid_image_endpoint_is_reported_under_its_own_field(context):
    change(context, image_service_endpoint="tcp://127.0.0.1:1")

    with pytest.raises(ConfigError, match="imageServiceEndpoint"):
        plugin.nodeagent_provide_image_service(context)


def test_loading_the_plugin_does_not_import_grpc():
    script = "import sys, nodeagent_plugins.cri.plugin; sys.exit('grpc' in sys.modules or 'google' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
