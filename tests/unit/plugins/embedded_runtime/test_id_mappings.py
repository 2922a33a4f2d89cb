"""Tests for the mappings of user namespaces in the embedded runtime."""

from __future__ import annotations

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.id_mappings import mappings_of

MAPPING = cri.IDMapping(host_id=131072, container_id=0, length=65536)


def options(mode=cri.POD, uids=(MAPPING,), gids=(MAPPING,)):
    return cri.NamespaceOption(userns_options=cri.UserNamespace(mode=mode, uids=uids, gids=gids))


def test_mappings_are_passed_to_the_pause_process_and_the_oci_runtime():
    mappings = mappings_of(options())

    assert mappings.root == (131072, 131072)
    assert mappings.arguments() == ["uid_map=0 131072 65536", "gid_map=0 131072 65536"]
    entry = {"containerID": 0, "hostID": 131072, "size": 65536}
    assert mappings.spec() == {"uidMappings": [entry], "gidMappings": [entry]}


@pytest.mark.parametrize("given", [cri.NamespaceOption(), options(cri.NODE), options(uids=(), gids=())])
def test_pod_without_mappings_uses_the_user_namespace_of_the_node(given):
    assert mappings_of(given) is None


@pytest.mark.parametrize("groups", [(), (cri.IDMapping(host_id=1, container_id=1, length=1),)])
def test_namespace_without_root_is_rejected(groups):
    with pytest.raises(InvalidArgument):
        mappings_of(options(gids=groups))
