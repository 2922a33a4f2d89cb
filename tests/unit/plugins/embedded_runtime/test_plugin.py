"""Tests for the embedded runtime plugin."""

from __future__ import annotations

import asyncio

import jsonschema
import pytest

from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.errors import ConfigError
from nodeagent.testing.context import make_context
from nodeagent_plugins.embedded_runtime import plugin, supervisor


@pytest.fixture
def supervised(monkeypatch):
    """Return the arguments of each supervisor that is created; the supervisors do nothing."""
    made = []

    class Fake:
        def __init__(self, *arguments):
            made.append(arguments)

        async def run(self):
            await asyncio.Event().wait()

    monkeypatch.setattr(supervisor, "Supervisor", Fake)
    return made


def configure(tmp_path, settings, endpoint="unix:///run/x.sock", **fields):
    config = NodeAgentConfiguration(container_runtime_endpoint=endpoint, **fields)
    context = make_context(tmp_path, config=config)
    context.plugin_settings = {"embedded_runtime": settings} if settings is not None else {}
    plugin.nodeagent_configure(config, context)
    return context


@pytest.mark.parametrize("settings", [None, {}, {"enabled": False}])
async def test_disabled_plugin_starts_no_runtime(tmp_path, supervised, settings):
    configure(tmp_path, settings)

    assert supervised == []


@pytest.mark.row("card.embedded-runtime")
async def test_runtime_is_supervised_at_the_configured_endpoint(tmp_path, supervised):
    context = configure(tmp_path, {"enabled": True, "runner": "own", "insecureRegistries": ["a:1", "b"]})

    ((endpoint, root, options, _clock),) = supervised
    assert (endpoint, root) == ("unix:///run/x.sock", context.root_dir / "embedded-runtime")
    assert options == [
        *("--hairpin-mode", "promiscuous-bridge", "--runner", "own"),
        *("--insecure-registry", "a:1", "--insecure-registry", "b"),
    ]
    await context.tasks.close()


@pytest.mark.row("config.hairpinMode")
async def test_runtime_starts_with_the_configured_hairpin_mode(tmp_path, supervised):
    context = configure(tmp_path, {"enabled": True}, hairpin_mode="hairpin-veth")

    ((_, _, options, _),) = supervised
    assert options == ["--hairpin-mode", "hairpin-veth"]
    await context.tasks.close()


@pytest.mark.parametrize(("endpoint", "value"), [("tcp://127.0.0.1:1", "tcp://127.0.0.1:1"), ("", None)])
async def test_endpoint_that_is_not_a_socket_is_rejected(tmp_path, supervised, endpoint, value):
    with pytest.raises(ConfigError, match="containerRuntimeEndpoint") as caught:
        configure(tmp_path, {"enabled": True}, endpoint=endpoint)

    assert [problem.value for problem in caught.value.problems] == [value]


@pytest.mark.parametrize("wrong", [{"enabled": "yes"}, {"runner": "docker"}, {"bridge": "a b"}, {"extra": 1}])
def test_invalid_settings_violate_the_schema(wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, plugin.nodeagent_settings_schema())


@pytest.mark.parametrize(("endpoint", "loops"), [("unix:///run/x.sock", ["hairpin mode"]), ("tcp://h:1", [])])
def test_hairpin_loop_runs_only_for_unix_sockets(tmp_path, endpoint, loops):
    context = make_context(tmp_path, config=NodeAgentConfiguration(container_runtime_endpoint=endpoint))

    assert [loop.name for loop in plugin.nodeagent_provide_background_loops(context)] == loops


def test_hook_nodeagent_settings_schema():
    jsonschema.Draft202012Validator.check_schema(plugin.nodeagent_settings_schema())
