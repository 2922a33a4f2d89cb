"""Endpoints are Unix sockets, and nothing else."""

from __future__ import annotations

import logging

import pytest

from nodeagent.errors import ConfigError
from nodeagent_plugins.cri.endpoint import parse_endpoint


def test_a_unix_url_is_taken_as_it_is(caplog):
    assert parse_endpoint("unix:///run/x.sock", "containerRuntimeEndpoint") == "unix:///run/x.sock"
    assert caplog.records == []


def test_a_bare_path_is_taken_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        assert parse_endpoint("/run/x.sock", "imageServiceEndpoint") == "unix:///run/x.sock"

    assert "deprecated" in caplog.text


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:1", "npipe:////./pipe/x", "run/x.sock", "unix:///", "unix://x"])
def test_other_endpoints_are_refused_with_field_and_value(endpoint):
    with pytest.raises(ConfigError) as refused:
        parse_endpoint(endpoint, "containerRuntimeEndpoint")

    (problem,) = refused.value.problems
    assert (problem.path, problem.value) == ("containerRuntimeEndpoint", endpoint)


def test_an_empty_endpoint_is_named_as_missing():
    with pytest.raises(ConfigError, match="containerRuntimeEndpoint: is required"):
        parse_endpoint("", "containerRuntimeEndpoint")
