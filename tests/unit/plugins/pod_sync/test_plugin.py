"""Tests for the hooks of the plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.contracts.pods import PodSyncer
from nodeagent.testing import make_config, make_pod
from nodeagent.testing.context import make_context
from nodeagent_plugins import pod_sync


@pytest.fixture
def hooks():
    class Silent:
        async def notify(self, hook, **arguments):
            pass

        async def call_chain(self, hook, name, value, **arguments):
            return value

    return Silent()


async def test_hook_provide_pod_syncer(tmp_path: Path, clock, hooks):
    logs = tmp_path / "logs"
    context = make_context(tmp_path, clock=clock, plugin_settings={"pod_sync": {"log_root": str(logs)}})
    resolver_free = make_pod(dns_policy="None")

    syncer: PodSyncer = pod_sync.nodeagent_provide_pod_syncer(context=context, plugins=hooks)
    outcome = await syncer.sync_pod(resolver_free, resolver_free.status, context.runtime.pod(resolver_free.uid))

    assert outcome.error is None
    assert (logs / "pods" / "default_web_uid-web").is_dir()


def test_hook_settings_schema():
    schema = pod_sync.nodeagent_settings_schema()

    assert set(schema["properties"]) == {"log_root", "sandboxes_at_once"}
    assert schema["additionalProperties"] is False


async def test_configured_log_directory_replaces_the_default(tmp_path: Path, clock, hooks):
    settings = {"pod_sync": {"log_root": str(tmp_path / "logs")}}
    config = make_config(pod_logs_dir=str(tmp_path / "data"))
    context = make_context(tmp_path, clock=clock, config=config, plugin_settings=settings)
    pod = make_pod(dns_policy="None")

    syncer: PodSyncer = pod_sync.nodeagent_provide_pod_syncer(context=context, plugins=hooks)
    await syncer.sync_pod(pod, pod.status, context.runtime.pod(pod.uid))

    assert (tmp_path / "data" / "default_web_uid-web").is_dir()
    assert not (tmp_path / "logs" / "pods").exists()
