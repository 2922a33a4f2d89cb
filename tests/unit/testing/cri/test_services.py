"""Tests for the state of the fake runtime that responds to CRI requests."""

from __future__ import annotations

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.errors import NotFound
from nodeagent.testing.cri.services import ImageService, RuntimeService


@pytest.fixture
def service():
    return RuntimeService()


def run(service, name="web", network=cri.POD, **config):
    metadata = cri.PodSandboxMetadata(name=name, uid=name)
    options = cri.NamespaceOption(network=network)
    security = cri.LinuxSandboxSecurityContext(namespace_options=options)
    config = cri.PodSandboxConfig(
        metadata=metadata, linux=cri.LinuxPodSandboxConfig(security_context=security), **config
    )
    return service.run_pod_sandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id


def sandboxes(service, **filters):
    request = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(**filters))
    return [item.metadata.name for item in service.list_pod_sandbox(request).items]


def test_sandboxes_are_listed_by_state_id_and_labels(service):
    stopped, ready = run(service, "stopped"), run(service, "ready", labels={"a": "b"})
    service.stop_pod_sandbox(cri.StopPodSandboxRequest(pod_sandbox_id=stopped))

    assert sandboxes(service) == ["stopped", "ready"]
    assert sandboxes(service, state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY)) == ["ready"]
    assert sandboxes(service, state=cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)) == ["stopped"]
    assert sandboxes(service, id=ready[:12]) == ["ready"]
    assert sandboxes(service, label_selector={"a": "b"}) == ["ready"]
    assert sandboxes(service, label_selector={"a": "c"}) == []


def test_only_ready_sandboxes_with_their_own_network_have_an_address(service):
    def address(sandbox):
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
        return service.pod_sandbox_status(request).status.network.ip

    own, shared = run(service), run(service, network=cri.NODE)
    assert address(own).startswith("10.88.")
    assert address(shared) == ""
    service.stop_pod_sandbox(cri.StopPodSandboxRequest(pod_sandbox_id=own))
    assert address(own) == ""


def test_removed_sandbox_is_not_found(service):
    sandbox = run(service)
    service.remove_pod_sandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    service.remove_pod_sandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))

    assert sandboxes(service) == []
    with pytest.raises(NotFound, match=sandbox):
        service.pod_sandbox_status(cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox))


def test_requested_images_are_in_the_store_until_they_are_removed():
    images, spec = ImageService(), cri.ImageSpec(image="a:1")

    def listed():
        return [image.repo_tags[0] for image in images.list_images(cri.ListImagesRequest()).images]

    reference = images.pull_image(cri.PullImageRequest(image=spec)).image_ref
    assert images.image_status(cri.ImageStatusRequest(image=spec)).image.id == reference
    assert listed() == ["a:1"]
    images.remove_image(cri.RemoveImageRequest(image=spec))
    assert listed() == []
