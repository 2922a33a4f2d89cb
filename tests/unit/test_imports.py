"""Tests for the libraries that the agent and its plugins import at the start; each costs every node memory and time."""

import json
import subprocess
import sys

import pytest

LOADED = """
import json, sys
import nodeagent.agent, nodeagent.cli.run
from nodeagent.pluginmanager import PluginManager
PluginManager().load_entry_points()
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "aiohttp",
        "cryptography",
        "grpc",  # the clients of the runtime and of plugins import it
        "h2",
        "jsonschema",
        "opentelemetry",
        "psutil",
        "rich",
        "watchdog",
    ],
)
def test_library_is_not_imported_at_the_start(loaded, module):
    assert module not in loaded


def test_handlers_of_routes_are_not_imported_at_the_start(loaded):
    assert "nodeagent_plugins.routes_exec" in loaded, "the plugin itself is loaded"
    assert not {name for name in loaded if name.startswith("nodeagent_plugins.routes_exec.")}
    assert "nodeagent.server.app" not in loaded
