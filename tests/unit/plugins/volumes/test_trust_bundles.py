"""Tests for projected trust bundles."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.api import Resource
from nodeagent.contracts.context import AgentContext
from nodeagent.errors import ApiNotFound, VolumeError
from nodeagent.testing import FakeApi, FakeRecorder, make_context
from nodeagent.testing.clock import FakeClock, eventually
from nodeagent_plugins.volumes.pem import decode_blocks, encode_certificates

from .conftest import FakeMounter, new_manager, pod_with

BETA, ALPHA = (
    Resource("certificates", version, "clustertrustbundles", "ClusterTrustBundle", namespaced=False)
    for version in ("v1beta1", "v1alpha1")
)
SIGNER = "example.com/signer"

pytestmark = pytest.mark.covers("nodeagent_plugins.volumes.payload")


class VersionedApi(FakeApi):
    """Server that has trust bundles in one version."""

    def __init__(self, version: Resource) -> None:
        super().__init__()
        self.version = version

    async def list(self, resource: Any, *args: Any, **kwargs: Any) -> Any:
        if resource != self.version:
            raise ApiNotFound("the server could not find the requested resource", code=404)
        return await super().list(resource, *args, **kwargs)

    def add(self, name: str, *anchors: bytes, signer: str = "", **labels: str) -> None:
        spec = {"trustBundle": encode_certificates(anchors).decode(), **({"signerName": signer} if signer else {})}
        self.put(self.version, {"metadata": {"name": name, "labels": labels}, "spec": spec})


@pytest.fixture(params=[BETA, ALPHA], ids=["v1beta1", "v1alpha1"])
def api(request: pytest.FixtureRequest) -> VersionedApi:
    return VersionedApi(request.param)


@pytest.fixture
async def context(
    tmp_path: Path, clock: FakeClock, recorder: FakeRecorder, api: VersionedApi
) -> AsyncIterator[AgentContext]:
    context = make_context(tmp_path, clock=clock, recorder=recorder, api=api)
    yield context
    await context.tasks.close()


async def anchors(context: AgentContext, mounter: FakeMounter, **source: Any) -> set[bytes]:
    """Return the certificates in the file of a new pod; duplicates fail."""
    manager = new_manager(context, mounter)
    volume = {"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"path": "ca.pem", **source}}]}}
    mounted = await manager.prepare(pod_with(volume))
    found = list(decode_blocks(Path(mounted["v"].host_path, "ca.pem").read_text()))
    assert len(found) == len(set(found))
    return set(found)


async def test_bundle_is_selected_by_name(context: AgentContext, mounter: FakeMounter, api: VersionedApi) -> None:
    api.add("roots", b"a", b"b", b"a")
    api.add("other", b"c")

    assert await anchors(context, mounter, name="roots") == {b"a", b"b"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchLabels": {"stage": "live"}}, {b"a", b"b"}),
        ({"matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["live"]}]}, {b"c"}),
        ({}, {b"a", b"b", b"c"}),
    ],
)
async def test_bundles_of_a_signer_are_merged(
    context: AgentContext, mounter: FakeMounter, api: VersionedApi, selector: dict[str, Any], expected: set[bytes]
) -> None:
    api.add("one", b"a", signer=SIGNER, stage="live")
    api.add("two", b"a", b"b", signer=SIGNER, stage="live")
    api.add("old", b"c", signer=SIGNER, stage="old")
    api.add("other", b"d", signer="example.com/other", stage="live")

    assert await anchors(context, mounter, signerName=SIGNER, labelSelector=selector) == expected


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"name": "none"}, 'clustertrustbundles "none" not found'),
        ({"signerName": SIGNER, "labelSelector": {}}, "matched zero ClusterTrustBundles"),
        ({}, "requires either name or signerName"),
    ],
)
async def test_missing_bundle_prevents_the_start_unless_optional(
    context: AgentContext, mounter: FakeMounter, source: dict[str, Any], text: str
) -> None:
    with pytest.raises(VolumeError, match=text):
        await anchors(context, mounter, **source)

    if source:
        assert await anchors(context, mounter, optional=True, **source) == set()


async def test_selector_that_is_not_set_matches_nothing(
    context: AgentContext, mounter: FakeMounter, api: VersionedApi
) -> None:
    api.add("one", b"a", signer=SIGNER)

    with pytest.raises(VolumeError, match="matched zero"):
        await anchors(context, mounter, signerName=SIGNER)


async def test_change_of_a_bundle_is_written(
    context: AgentContext, mounter: FakeMounter, api: VersionedApi, clock: FakeClock
) -> None:
    api.add("roots", b"a")
    manager = new_manager(context, mounter)
    source = {"clusterTrustBundle": {"name": "roots", "path": "ca.pem"}}
    pod = pod_with({"name": "v", "projected": {"sources": [source]}})
    file = Path((await manager.prepare(pod))["v"].host_path, "ca.pem")
    first = file.resolve()
    await eventually(lambda: api.watches == 1)

    await manager.prepare(pod)
    assert file.resolve() == first  # The order is stable, so nothing is written again.
    api.add("roots", b"b")
    await clock.advance(1)
    await manager.prepare(pod)

    assert list(decode_blocks(file.read_text())) == [b"b"]


async def test_server_without_trust_bundles_is_the_reason(tmp_path: Path, mounter: FakeMounter) -> None:
    unrelated = Resource("certificates", "v1", "clustertrustbundles", "ClusterTrustBundle", namespaced=False)

    with pytest.raises(VolumeError, match="has no version of ClusterTrustBundle"):
        await anchors(make_context(tmp_path, api=VersionedApi(unrelated)), mounter, name="roots")


async def test_standalone_node_has_no_trust_bundles(tmp_path: Path, mounter: FakeMounter) -> None:
    with pytest.raises(VolumeError, match="not supported in static kubelet mode"):
        await anchors(make_context(tmp_path), mounter, name="roots")


def test_headers_and_text_between_blocks_are_dropped() -> None:
    body = base64.b64encode(b"der").decode()
    text = f"comment\n-----BEGIN CERTIFICATE-----\nName: x\n\n{body}\n-----END CERTIFICATE-----\nmore\n"

    assert encode_certificates(decode_blocks(text)).decode().splitlines() == [
        "-----BEGIN CERTIFICATE-----",
        body,
        "-----END CERTIFICATE-----",
    ]
