"""Tests for descriptions of plugins."""

import pytest

from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import PluginRegistrationError
from nodeagent_plugins.plugin_registry.protocol import check_description, check_endpoint


def described(**fields):
    return RegisteredPlugin(
        **{"type": "CSIPlugin", "name": "a", "socket": "/r.sock", "endpoint": "/a.sock", "versions": ("1",), **fields}
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": ""}, "invalid plugin name ''"),
        ({"name": "x" * 254}, "must have 1 to 253 characters"),
        ({"name": "a\0"}, "invalid plugin name"),
        ({"endpoint": ""}, "must be an absolute path"),
        ({"endpoint": "a.sock"}, "must be an absolute path"),
        ({"endpoint": "/a\0"}, "must be an absolute path"),
        ({"endpoint": "/a/../b"}, "must be an absolute path"),
        ({"versions": ("1",) * 101}, "lists more than"),
    ],
)
def test_invalid_description_is_rejected(fields, problem):
    with pytest.raises(PluginRegistrationError, match=problem):
        check_description(described(**fields))


@pytest.mark.parametrize("fields", [{}, {"name": "x" * 253}, {"versions": ()}, {"versions": ("1",) * 100}])
def test_valid_description_is_accepted(fields):
    check_description(described(**fields))


def test_endpoint_must_not_be_a_link(tmp_path):
    link = tmp_path / "link"
    check_endpoint(described(endpoint=str(link)))
    link.symlink_to("/dev/null")
    with pytest.raises(PluginRegistrationError, match="must not be a symbolic link"):
        check_endpoint(described(endpoint=str(link)))
