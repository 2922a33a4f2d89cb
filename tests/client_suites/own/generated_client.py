"""A client that openapi-python-client generates from the OpenAPI document of the server builds and works."""

from __future__ import annotations

import importlib
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

GROUPS = {"core": "api/v1", "apps": "apis/apps/v1"}


@pytest.fixture(scope="session")
def access() -> dict[str, Any]:
    document = yaml.safe_load(Path(os.environ["CLIENT_SUITES_KUBECONFIG"]).read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    return {"url": cluster["server"], "authority": cluster["certificate-authority"], "token": user["token"]}


@pytest.fixture(scope="session")
def package(
    access: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[str, Path]:
    """Name and directory of a client that is generated from the document of one group version."""
    import httpx

    directory, name = tmp_path_factory.mktemp("client"), f"generated_{request.param}"
    document = directory / "openapi.json"
    response = httpx.get(
        f"{access['url']}/openapi/v3/{GROUPS[request.param]}",
        headers={"Authorization": f"Bearer {access['token']}"},
        verify=ssl.create_default_context(cafile=access["authority"]),
    )
    document.write_text(json.dumps(response.raise_for_status().json()))
    (directory / "config.yaml").write_text(json.dumps({"package_name_override": name, "post_hooks": []}))
    command = [str(Path(sys.executable).with_name("openapi-python-client")), "generate", "--meta=none"]
    command += [f"--path={document}", f"--config={directory / 'config.yaml'}", f"--output-path={directory / name}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return name, directory


@pytest.fixture
def client(package: tuple[str, Path], access: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    name, directory = package
    monkeypatch.syspath_prepend(str(directory))
    context = ssl.create_default_context(cafile=access["authority"])
    module = importlib.import_module(f"{name}.client")
    return module.AuthenticatedClient(base_url=access["url"], token=access["token"], verify_ssl=context)


def _module(client: Any, path: str) -> Any:
    return importlib.import_module(f"{type(client).__module__.partition('.')[0]}.{path}")


@pytest.mark.parametrize("package", GROUPS, indirect=True)
def test_every_operation_has_a_module(package: tuple[str, Path]) -> None:
    name, directory = package
    paths = json.loads((directory / "openapi.json").read_text())["paths"].values()
    operations = sum(isinstance(item, dict) and "operationId" in item for path in paths for item in path.values())
    modules = [item for item in (directory / name / "api").glob("*/*.py") if item.name != "__init__.py"]

    assert len(modules) == operations


@pytest.mark.parametrize("package", ["core"], indirect=True)
def test_objects_are_created_and_read(client: Any) -> None:
    models = _module(client, "models")
    meta = models.IoK8SApimachineryPkgApisMetaV1ObjectMeta(name="generated")
    data = models.IoK8SApiCoreV1ConfigMapData.from_dict({"key": "value"})
    body = models.IoK8SApiCoreV1ConfigMap(metadata=meta, data=data)

    api = "api.core_v1"
    created = _module(client, f"{api}.create_core_v1_namespaced_config_map").sync_detailed(
        "default", client=client, body=body
    )
    assert created.status_code == 201, created.content
    found = _module(client, f"{api}.read_core_v1_namespaced_config_map").sync("default", "generated", client=client)
    assert found.data.to_dict() == {"key": "value"}
    listed = _module(client, f"{api}.list_core_v1_namespaced_config_map").sync("default", client=client)
    assert "generated" in [item.metadata.name for item in listed.items]
    deleted = _module(client, f"{api}.delete_core_v1_namespaced_config_map").sync_detailed(
        "default", "generated", client=client, body=models.IoK8SApimachineryPkgApisMetaV1DeleteOptions()
    )
    assert deleted.status_code == 200, deleted.content


@pytest.mark.parametrize("package", ["apps"], indirect=True)
def test_deployments_are_listed(client: Any) -> None:
    listed = _module(client, "api.apps_v1.list_apps_v1_deployment_for_all_namespaces").sync(client=client)

    assert listed.kind == "DeploymentList"
