"""Tests for unknown fields of pod manifests."""

import pytest

from nodeagent.errors import ConfigError
from nodeagent.model.static_pod import static_pod
from nodeagent.model.unknown_fields import unknown_fields


def pod(metadata=None, **spec):
    spec = {"containers": [{"name": "main", "image": "busybox"}]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"} | (metadata or {}), "spec": spec}


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (pod({"lables": {"a": "b"}}), "metadata.lables (did you mean labels?)"),
        (pod(image="busybox"), "spec.image"),
        (
            pod(containers=[{"name": "a"}, {"name": "b", "comand": []}]),
            "spec.containers[1].comand (did you mean command?)",
        ),
        (pod(volumes=[{"name": "v", "hostpath": {}}]), "spec.volumes[0].hostpath (did you mean hostPath?)"),
        (
            pod(containers=[{"name": "a", "livenessProbe": {"httpGet": {"prt": 1}}}]),
            "spec.containers[0].livenessProbe.httpGet.prt (did you mean port?)",
        ),
        (
            pod(containers=[{"name": "a", "env": [{"name": "b", "valueFrom": {"secretKeyref": {}}}]}]),
            "spec.containers[0].env[0].valueFrom.secretKeyref (did you mean secretKeyRef?)",
        ),
        ({**pod(), "spc": {}}, "spc (did you mean spec?)"),
    ],
)
def test_misspelled_field_is_reported_with_a_suggestion(plain, expected):
    assert [str(field) for field in unknown_fields(plain)] == [expected]


def test_fields_that_this_node_does_not_use_are_accepted():
    limits = {"limits": {"example.com/gpu": "1"}}
    container = {"name": "a", "resources": limits, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
    plain = pod(
        {"generateName": "web-", "managedFields": [], "labels": {"any": "name"}},
        containers=[container],
        schedulerName="other",
        overhead={"cpu": "1m"},
        nodeSelector={"any": "name"},
        volumes=[{"name": "v", "rbd": {"image": "i"}}, {"name": "w", "photonPersistentDisk": {}}],
    )
    assert unknown_fields({**plain, "status": {"phase": "Pending", "hostIPs": []}}) == []


def test_misspelled_field_is_reported_with_the_missing_one(clock):
    plain = pod(containers=None, containerz=[{"name": "main", "image": "busybox"}])
    del plain["spec"]["containers"]
    with pytest.raises(ConfigError) as error:
        static_pod(
            plain,
            node_name="node-1",
            source="file",
            origin="file:/pods/web.yaml",
            seen_at=clock.wall(),
            tolerate_everything=True,
        )

    text = str(error.value)
    assert "spec.containers" in text
    assert "/pods/web.yaml: spec.containerz: is an unknown field, did you mean containers?" in text
