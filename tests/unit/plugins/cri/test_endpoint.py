"""Tests for the parsing of runtime endpoints."""

from __future__ import annotations

import logging

import pytest

from nodeagent.errors import ConfigError
from nodeagent_plugins.cri.endpoint import parse_endpoint


def test_unix_url_is_accepted_unchanged(caplog):
    assert parse_endpoint("unix:///run/x.sock", "containerRuntimeEndpoint") == "unix:///run/x.sock"
    assert caplog.records == []


def test_bare_path_is_accepted_and_logged_as_deprecated(caplog):
    with caplog.at_level(logging.INFO):
        assert parse_endpoint("/run/x.sock", "imageServiceEndpoint") == "unix:///run/x.sock"

    assert "deprecated" in caplog.text


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:1", "npipe:////./pipe/x", "run/x.sock", "unix:///", "unix://x"])
def test_invalid_endpoint_is_rejected_with_field_and_value(endpoint):
    with pytest.raises(ConfigError) as raised:
        parse_endpoint(endpoint, "containerRuntimeEndpoint")

    (problem,) = raised.value.problems
    assert (problem.path, problem.value) == ("containerRuntimeEndpoint", endpoint)


def test_empty_endpoint_is_reported_as_missing():
    with pytest.raises(ConfigError, match="containerRuntimeEndpoint: is required"):
        parse_endpoint("", "containerRuntimeEndpoint")
