"""Tests for the configuration types: plain values, types, origins."""

from __future__ import annotations

import pytest

from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.quantity import Quantity
from nodeagent.config.codec import decode, encode, nearest
from nodeagent.config.fields import all_fields
from nodeagent.config.rules.node import logging_settings
from nodeagent.config.tree import DEFAULT, Origin, Tree
from nodeagent.contracts.configuration import (
    FormatOptions,
    JSONOptions,
    LoggingConfiguration,
    NodeAgentConfiguration,
    VModuleItem,
)


def test_plain_values_decode_to_the_same_configuration():
    config = NodeAgentConfiguration(max_pods=3, eviction_soft={"memory.available": "1Gi"})
    problems = []

    assert decode(NodeAgentConfiguration, encode(config), lambda *problem: problems.append(problem)) == config
    assert not problems


def test_every_field_has_a_description():
    assert [path for path, field in all_fields().items() if not field.member.doc] == []


def test_configuration_is_immutable():
    with pytest.raises(AttributeError):
        NodeAgentConfiguration().max_pods = 3


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("clusterDNS", "array of string"),
        ("evictionSoft", "map of string to string"),
        ("featureGates", "map of string to bool"),
        ("syncFrequency", "duration"),
        ("maxPods", "int32"),
    ],
)
def test_types_are_named_as_in_the_documentation(path, name):
    assert all_fields()[path].member.shape.name == name


def test_nearest_name_ignores_case():
    assert nearest("MAXPODS", ["maxPods", "port"]) == "maxPods"
    assert nearest("qqqq", ["maxPods", "port"]) == ""


def test_cpu_lists_are_parsed():
    assert parse_cpu_list("0-3, 8") == {0, 1, 2, 3, 8}
    assert parse_cpu_list("") == frozenset()


def test_logging_field_is_converted_to_logging_settings():
    logging = LoggingConfiguration(
        verbosity=3,
        vmodule=(VModuleItem(file_pattern="a*", verbosity=5),),
        options=FormatOptions(json=JSONOptions(split_stream=True, info_buffer_size=Quantity.parse("4Ki"))),
    )

    settings = logging_settings(logging)

    assert (settings.format, settings.flush_seconds, settings.verbosity) == ("text", 5.0, 3)
    assert [(item.file_pattern, item.verbosity) for item in settings.vmodule] == [("a*", 5)]
    assert settings.json.split_stream
    assert settings.json.info_buffer_bytes == 4096


def test_field_without_an_origin_has_that_of_its_object():
    tree = Tree()
    location = Origin("file", "a.yaml", 3)
    tree.merge({"a": [{"b": 1}]}, lambda _: location)

    assert tree.origin("a[0].b") == location
    assert tree.origin("a[0].c") == location
    assert tree.origin("b") == DEFAULT


def test_replacing_an_object_discards_the_origins_of_its_fields():
    tree = Tree()
    tree.merge({"a": {"b": {"c": 1}}}, lambda _: Origin("file", "one"))
    tree.replace(("a", "b"), {"d": 2}, Origin("flag", "--b"))

    assert tree.value == {"a": {"b": {"d": 2}}}
    assert dict(tree.origins()) == {
        "a": Origin("file", "one"),
        "a.b": Origin("flag", "--b"),
        "a.b.d": Origin("flag", "--b"),
    }
