"""Tests that every path and verb in discovery requires authorization: user × verb × path."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integration.apiserver.conftest import Server

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
PATHS = (
    *("/", "/api", "/apis", "/apis/apps", "/api/v1", "/apis/events.k8s.io/v1", "/metrics", "/version"),
    *(
        "/healthz",
        "/livez",
        "/readyz",
        "/healthz/ping",
        "/livez/ping",
        "/readyz/shutdown",
        "/openapi/v2",
        "/openapi/v3",
    ),
    *("/debug/pprof/", "/debug/pprof/profile", "/debug/flags/v", "/nothing", "/apis/no.such/v1"),
    *("/.well-known/openid-configuration", "/openid/v1/jwks"),
)
OPEN_TO_ALL = {"/healthz", "/livez", "/readyz", "/version"}
OPEN_TO_KNOWN = OPEN_TO_ALL | {"/api", "/apis", "/apis/apps", "/api/v1", "/apis/events.k8s.io/v1", "/apis/no.such/v1"}
OPEN_TO_KNOWN |= {"/openapi/v2", "/openapi/v3"}
OPEN_TO_KNOWN |= {path for path in PATHS if path.startswith(("/apis/", "/openapi/"))}
ABOUT_ONESELF = {"selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}

USERS = {
    "nobody": (None, "system:anonymous", ["system:unauthenticated"]),
    "plain": ("plain", "plain", ["system:authenticated"]),
    "viewer": ("viewer", "viewer", ["system:authenticated"]),
    "node": ("node", "system:node:n1", ["system:nodes", "system:authenticated"]),
    "account": ("account", "job", ["system:serviceaccounts", "system:authenticated"]),
}


@dataclass(frozen=True)
class Cell:
    """Request and its authorization attributes."""

    verb: str
    path: str
    attributes: dict[str, str] | None = None

    @property
    def about(self) -> dict[str, Any]:
        if self.attributes is None:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        return {"resourceAttributes": {**self.attributes, "verb": self.verb}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("matrix")
    tokens = directory / "tokens.csv"
    tokens.write_text(
        'plain,plain,1\nviewer,viewer,2\nnode,system:node:n1,3,"system:nodes"\naccount,job,4,"system:serviceaccounts"\n'
    )
    found = Server(directory / "data", "--authorization-mode=Node,RBAC", f"--token-auth-file={tokens}")
    binding = {
        "metadata": {"name": "viewer"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "viewer"}],
    }
    found.api().ok("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    yield found
    assert found.stop() == 0


@pytest.fixture(scope="module")
def cells(server: Server) -> list[Cell]:
    """Return all verbs of all resources in discovery, and methods of non-resource paths."""
    api = server.api()
    groups = ["/api/v1"] + [
        f"/apis/{v['groupVersion']}" for g in api.ok("GET", "/apis")["groups"] for v in g["versions"]
    ]
    found = []
    for root in groups:
        group, _, version = root.removeprefix("/apis/").rpartition("/")
        group = "" if root == "/api/v1" else group
        for resource in api.ok("GET", root)["resources"]:
            plural, _, subresource = resource["name"].partition("/")
            for namespace in ("default", "kube-system") if resource["namespaced"] else ("",):
                for verb in resource["verbs"]:
                    found.append(make_cell(root, (group, version, plural, subresource), namespace, verb))
    paths = [Cell(method, path) for path in PATHS for method in ("get", "post", "put", "delete", "patch")]
    return found + paths


def make_cell(root: str, of: tuple[str, str, str, str], namespace: str, verb: str) -> Cell:
    group, version, plural, subresource = of
    named = verb in ("get", "update", "patch", "delete") or bool(subresource)
    name = "n0" if named else ""
    if plural == "namespaces" and named:
        name = namespace = "nowhere"
        path = f"{root}/namespaces/{name}"
    else:
        path = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
        path += f"/{name}" if name else ""
    path += f"/{subresource}" if subresource else ""
    path += "?watch=1" if verb == "watch" else "?dryRun=All" if METHODS[verb] != "GET" else ""
    members = ("group", "version", "resource", "subresource", "namespace", "name")
    values = (group, version, plural, subresource, namespace, name)
    return Cell(verb, path, {key: value for key, value in zip(members, values, strict=True) if value})


class Caller:
    """Returns whether a request was admitted; streaming responses are not read."""

    def __init__(self, server: Server, token: str | None) -> None:
        parts = urlsplit(server.ready["url"])
        self._address = (parts.hostname or "", parts.port or 0)
        self._context = ssl.create_default_context(cafile=server.ready["caFile"])
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection: http.client.HTTPSConnection | None = None

    def let_in(self, cell: Cell) -> bool:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(*self._address, timeout=20, context=self._context)
        method = METHODS.get(cell.verb, cell.verb.upper())
        body = b"{}" if method in ("POST", "PUT", "PATCH") else None
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        self._connection.request(method, cell.path, body, headers)
        response = self._connection.getresponse()
        # Upstream reports some invalid bodies as 500.
        assert response.status < 500 or response.status in (501, 502, 503, 504) or cell.path.count("binding"), cell
        if cell.verb == "watch" and response.status == 200:
            self.close()
            return True
        rejection = response.status == 403 and b" cannot " in (data := response.read()) and b"orbidden" in data
        if response.status != 403:
            response.read()
        return not rejection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@pytest.mark.row("opt.authorization-mode")
@pytest.mark.parametrize("who", USERS)
def test_each_request_matches_the_authorization_decision(server: Server, cells: list[Cell], who: str) -> None:
    token, name, groups = USERS[who]
    api, caller, wrong = server.api(), Caller(server, token), []

    for cell in cells:
        review = {"spec": {"user": name, "groups": groups, **cell.about}}
        expected = api.ok("POST", REVIEWS, review)["status"]["allowed"]
        if caller.let_in(cell) is not expected:
            wrong.append((cell.verb, cell.path, expected))
    caller.close()

    assert len(cells) > 450
    assert wrong == []


@pytest.mark.row("opt.authorization-mode")
@pytest.mark.parametrize("who", ["nobody", "plain"])
def test_user_without_roles_reaches_only_public_paths(server: Server, cells: list[Cell], who: str) -> None:
    caller = Caller(server, USERS[who][0])

    let_in = {
        (cell.verb, cell.path.partition("?")[0].rpartition("/")[2])
        for cell in cells
        if cell.attributes and caller.let_in(cell)
    }
    paths = {(cell.verb, cell.path) for cell in cells if not cell.attributes and caller.let_in(cell)}
    caller.close()

    open_paths = OPEN_TO_ALL if who == "nobody" else OPEN_TO_KNOWN
    assert paths == {("get", path) for path in open_paths}
    assert let_in == (set() if who == "nobody" else {("create", plural) for plural in ABOUT_ONESELF})


def test_administrator_reaches_every_path(server: Server, cells: list[Cell]) -> None:
    caller = Caller(server, server.ready["token"])

    rejection = [cell for cell in cells if cell.path != "/debug/pprof/profile" and not caller.let_in(cell)]
    caller.close()

    assert rejection == []
