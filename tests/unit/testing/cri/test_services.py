"""Tests for the state of the fake runtime that responds to CRI requests."""

from __future__ import annotations

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import changes
from nodeagent.errors import NotFound, RuntimeFailure
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


def create(service, sandbox, name="main", attempt=0, command=(), **config):
    metadata = cri.ContainerMetadata(name=name, attempt=attempt)
    config = cri.ContainerConfig(metadata=metadata, command=command, image=cri.ImageSpec(image="a:1"), **config)
    return service.create_container(cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config)).container_id


def start(service, sandbox, **options):
    container = create(service, sandbox, **options)
    service.start_container(cri.StartContainerRequest(container_id=container))
    return container


def containers(service, **filters):
    request = cri.ListContainersRequest(filter=cri.ContainerFilter(**filters))
    return [item.metadata.name for item in service.list_containers(request).containers]


def status_of(service, container):
    return service.container_status(cri.ContainerStatusRequest(container_id=container)).status


def test_containers_are_listed_by_state_id_sandbox_and_labels(service):
    first, second = run(service, "first"), run(service, "second")
    created = create(service, first, "created", labels={"a": "b"})
    start(service, second, name="running")
    start(service, second, name="exited", command=["exit", "3"])

    assert containers(service) == ["created", "running", "exited"]
    states = {"created": cri.CONTAINER_CREATED, "running": cri.CONTAINER_RUNNING, "exited": cri.CONTAINER_EXITED}
    for name, state in states.items():
        assert containers(service, state=cri.ContainerStateValue(state=state)) == [name]
    assert containers(service, id=created[:12]) == ["created"]
    assert containers(service, pod_sandbox_id=second) == ["running", "exited"]
    assert containers(service, label_selector={"a": "b"}) == ["created"]
    assert containers(service, label_selector={"a": "c"}) == []
    stats = service.list_container_stats(cri.ListContainerStatsRequest()).stats
    assert [item.attributes.metadata.name for item in stats] == ["running"]


def test_name_and_attempt_of_a_container_are_unique_in_its_sandbox(service):
    sandbox, other = run(service, "a"), run(service, "b")
    first = create(service, sandbox)
    with pytest.raises(RuntimeFailure, match=f"container name main is reserved for {first}"):
        create(service, sandbox)
    create(service, sandbox, attempt=1)
    create(service, other)


def test_exited_container_has_code_and_reason(service):
    sandbox = run(service)
    done, failed, stopped, created = (
        start(service, sandbox, name="done", command=["exit", "0"]),
        start(service, sandbox, name="failed", command=["exit", "3"]),
        start(service, sandbox, name="stopped"),
        create(service, sandbox, "created"),
    )
    for container in (done, stopped, created):
        service.stop_container(cri.StopContainerRequest(container_id=container))

    found = [status_of(service, each) for each in (done, failed, stopped, created)]
    assert [(each.exit_code, each.reason) for each in found] == [
        (0, "Completed"),
        (3, "Error"),
        (143, "Error"),
        (0, ""),
    ]
    assert found[-1].state == cri.CONTAINER_CREATED


def test_removed_sandbox_has_no_containers_left(service):
    sandbox, other = run(service, "a"), run(service, "b")
    removed = start(service, sandbox)
    start(service, other, name="kept")
    service.stop_pod_sandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
    assert status_of(service, removed).state == cri.CONTAINER_EXITED
    service.remove_pod_sandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))

    assert containers(service) == ["kept"]
    service.remove_container(cri.RemoveContainerRequest(container_id=removed))
    with pytest.raises(NotFound, match=removed):
        status_of(service, removed)
    with pytest.raises(NotFound, match=sandbox):
        create(service, sandbox)


def test_changes_are_published_by_topic(service):
    with service.listener() as queue:
        sandbox = run(service)
        container = start(service, sandbox)
        for _ in range(2):
            service.stop_container(cri.StopContainerRequest(container_id=container))
            service.stop_pod_sandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
        service.remove_container(cri.RemoveContainerRequest(container_id=container))
        service.remove_container(cri.RemoveContainerRequest(container_id=container))
    run(service, "later")

    started, ended, deleted = changes.TOPICS
    assert [queue.get_nowait() for _ in range(queue.qsize())] == [started, started, ended, ended, deleted]


def test_log_is_created_in_an_existing_directory(service, tmp_path):
    sandbox = run(service)
    for directory in (tmp_path, tmp_path / "missing"):
        config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=directory.name), log_path="0.log")
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=config, sandbox_config=cri.PodSandboxConfig(log_directory=str(directory))
        )
        container = service.create_container(request).container_id
        service.start_container(cri.StartContainerRequest(container_id=container))
    assert [path.name for path in tmp_path.iterdir()] == ["0.log"]


def test_verbose_status_has_the_number_of_calls(service):
    service.count("Version")
    assert dict(service.status(cri.StatusRequest(verbose=True)).info) == {"calls": '{"Version": 1}'}
    assert dict(service.status(cri.StatusRequest()).info) == {}
