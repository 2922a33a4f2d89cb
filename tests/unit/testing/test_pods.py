"""Tests for the builders of pods and containers."""

from nodeagent.model.pod import Pod
from nodeagent.testing import make_container, make_pod


def names(containers):
    return [container.name for container in containers]


def test_pod_has_the_defaults_of_the_api():
    pod = make_pod()

    assert (pod.name, pod.uid, pod.metadata.namespace, pod.status.phase) == ("web", "uid-web", "default", "Pending")
    assert (pod.spec.init_containers, pod.metadata.labels, pod.metadata.annotations) == (None, None, None)
    assert names(pod.spec.containers) == ["main"]
    assert isinstance(pod, Pod)


def test_containers_are_specified_by_name_or_as_structs():
    pod = make_pod(containers=["a", make_container("b")], init_containers=["first", make_container("second")])

    assert names(pod.spec.containers) == ["a", "b"]
    assert names(pod.spec.init_containers) == ["first", "second"]


def test_values_in_the_wire_format_are_converted():
    pod = make_pod(host_network=True, volumes=[{"name": "v", "emptyDir": {}}], labels={"a": "b"}, uid="7")

    assert pod.spec.host_network and pod.spec.volumes[0].empty_dir is not None
    assert (pod.metadata.labels, pod.uid) == ({"a": "b"}, "7")
    assert make_container(resources={"limits": {"cpu": "1"}}).resources.limits is not None
