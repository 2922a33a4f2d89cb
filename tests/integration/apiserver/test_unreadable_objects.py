"""Integration tests for stored objects that cannot be read: errors of requests, and the deletion of the objects."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from .etcd import running_etcd
from .test_limits import Client, serving, until

SECRETS = "/api/v1/namespaces/default/secrets"
OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
ENABLED = ("--compatibility-version=1.36", "--feature-gates=AllowUnsafeMalformedObjectDeletion=true")
UNDECODABLE = "object not decodable revision="
UNTRANSFORMABLE = "data from the storage is not transformable revision=0: "


async def call(client: Client, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    code, _, response = await client(method, path, json=body)
    return code, json.loads(response)


async def create(client: Client, *names: str) -> None:
    for name in names:
        body = {"metadata": {"name": name, "finalizers": ["example.com/hold"]}}
        assert (await call(client, "POST", SECRETS, body))[0] == 201


def damage(data: Path, name: str, value: bytes = b"damaged") -> None:
    """Replace the stored value of a Secret while no server runs."""
    with closing(sqlite3.connect(data / "store.db")) as db, db:
        assert db.execute("UPDATE records SET data = ? WHERE key = ?", (value, f"default/{name}")).rowcount == 1


@asynccontextmanager
async def damaged(data: Path, *arguments: str) -> AsyncIterator[tuple[Client, Client]]:
    """Yield clients of a server with an undecodable, an undecryptable and an intact Secret."""
    async with serving(data, *arguments) as (admin, _):
        await create(admin, "cipher", "intact", "text")
    damage(data, "text")
    damage(data, "cipher", b"k8s:enc:aesgcm:v1:a:damaged")
    async with serving(data, *arguments) as clients:
        yield clients


async def allow_deletions(admin: Client) -> None:
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"]}
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "remover"}
    role = {"metadata": {"name": "remover"}, "rules": [rule]}
    binding = {"metadata": {"name": "remover"}, "roleRef": reference, "subjects": [subject]}
    assert (await call(admin, "POST", f"{rbac}/roles", role))[0] == 201
    assert (await call(admin, "POST", f"{rbac}/rolebindings", binding))[0] == 201


async def test_reads_of_unreadable_objects_report_the_stored_keys(tmp_path: Path) -> None:
    async with damaged(tmp_path, *ENABLED) as (admin, _):
        found = [await call(admin, method, f"{SECRETS}/text") for method in ("GET", "DELETE")]
        _, cipher = await call(admin, "GET", f"{SECRETS}/cipher")
        code, listed = await call(admin, "GET", SECRETS)
        collection = await call(admin, "DELETE", SECRETS)
        other = await call(admin, "GET", "/api/v1/namespaces/kube-system/secrets")

    start = "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /secrets/default/"
    for status, body in found:
        assert (status, body["reason"]) == (500, "InternalError")
        assert body["message"].startswith(f"{start}text, ResourceVersion: 0, AdditionalErrorMsg: {UNDECODABLE}")
    assert cipher["message"].startswith(f"{start}cipher, ResourceVersion: 0, AdditionalErrorMsg: {UNTRANSFORMABLE}")
    assert (code, listed["reason"]) == (500, "StorageReadError")
    assert listed["message"] == "failed to read one or more secrets from the storage"
    causes = listed["details"].pop("causes")
    assert listed["details"] == {"name": "list", "kind": "secrets"}
    assert [cause["field"] for cause in causes] == [f"/registry/secrets/default/{name}" for name in ("cipher", "text")]
    assert {cause["reason"] for cause in causes} == {"UnexpectedServerResponse"}
    assert "Key: /registry/secrets/default/text, ResourceVersion: 0" in causes[1]["message"]
    assert collection[0] == 500
    assert other[0] == 200


async def test_list_error_names_a_hundred_objects(tmp_path: Path) -> None:
    names = [f"s{number:03}" for number in range(101)]
    async with serving(tmp_path, *ENABLED) as (admin, _):
        await asyncio.gather(*(create(admin, name) for name in names))
    for name in names:
        damage(tmp_path, name)

    async with serving(tmp_path, *ENABLED) as (admin, _):
        _, listed = await call(admin, "GET", SECRETS)

    causes = listed["details"]["causes"]
    assert len(causes) == 101
    assert causes[99]["field"].endswith("/s099")
    assert causes[100] == {"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"}


async def test_unreadable_objects_are_deleted_with_the_option(tmp_path: Path) -> None:
    async with damaged(tmp_path, *ENABLED) as (admin, _):
        by_body = await call(admin, "DELETE", f"{SECRETS}/text", {OPTION: True})
        missing = await call(admin, "GET", f"{SECRETS}/text")
        by_query = await call(admin, "DELETE", f"{SECRETS}/cipher?{OPTION}=true")
        await create(admin, "text")

    assert by_body == (
        200,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "text", "kind": "Secret"},
            "code": 200,
        },
    )
    assert missing[0] == 404
    assert by_query[0] == 200
    async with serving(tmp_path, *ENABLED) as (admin, _):
        code, listed = await call(admin, "GET", SECRETS)
        assert code == 200
        assert [item["metadata"]["name"] for item in listed["items"]] == ["intact", "text"]


async def test_revisions_increase_after_the_latest_object_was_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, *ENABLED) as (admin, _):
        await create(admin, "a")
        _, before = await call(admin, "GET", f"{SECRETS}/a")
    damage(tmp_path, "a")
    async with serving(tmp_path, *ENABLED) as (admin, _):
        assert (await call(admin, "DELETE", f"{SECRETS}/a", {OPTION: True}))[0] == 200
    async with serving(tmp_path, *ENABLED) as (admin, _):
        await create(admin, "a")
        _, after = await call(admin, "GET", f"{SECRETS}/a")

    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


@pytest.mark.parametrize("name", ["intact", "missing"])
async def test_option_is_rejected_for_other_objects(tmp_path: Path, name: str) -> None:
    async with damaged(tmp_path, *ENABLED) as (admin, _):
        code, response = await call(admin, "DELETE", f"{SECRETS}/{name}", {OPTION: True})

    assert code == 422
    assert response["message"] == (
        f'secrets "{name}" is invalid: {OPTION}: Invalid value: true: '
        "is exclusively used to delete corrupt object(s), try again by removing this option"
    )


async def test_option_requires_a_permission(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    policy = tmp_path / "policy.yaml"
    rules = [{"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    options = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--authorization-mode=RBAC")
    async with damaged(tmp_path, *ENABLED, *options) as (admin, alice):
        await allow_deletions(admin)
        plain = await call(alice, "DELETE", f"{SECRETS}/text")
        code, response = await call(alice, "DELETE", f"{SECRETS}/text", {OPTION: True})
        kept = await call(admin, "GET", f"{SECRETS}/text")

    assert plain[0] == kept[0] == 500
    assert (code, response["reason"]) == (403, "Forbidden")
    expected = 'secrets "text" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: '
    assert response["message"].startswith(expected)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    marked = [
        event for event in events if "apiserver.k8s.io/unsafe-delete-ignore-read-error" in event.get("annotations", {})
    ]
    assert [event["responseStatus"]["code"] for event in marked if event["stage"] == "ResponseComplete"] == [403]


async def test_option_excludes_others(tmp_path: Path) -> None:
    others = {"dryRun": ["All"], "propagationPolicy": "Orphan", "gracePeriodSeconds": 0, "preconditions": {}}
    async with damaged(tmp_path, *ENABLED) as (admin, _):
        code, response = await call(admin, "DELETE", f"{SECRETS}/text", {OPTION: True, **others})
        orphan = await call(admin, "DELETE", f"{SECRETS}/text?{OPTION}=true&orphanDependents=false")
        collection = await call(admin, "DELETE", SECRETS, {OPTION: True})
        kept = await call(admin, "GET", f"{SECRETS}/text")

    causes = response["details"]["causes"]
    assert code == 422
    assert {cause["field"] for cause in causes} == {OPTION}
    assert [cause["message"] for cause in causes] == [
        f"Invalid value: true: cannot be set together with .{name}" for name in others
    ]
    assert orphan[1]["message"].endswith("cannot be set together with .orphanDependents")
    assert collection[1]["message"].endswith(
        "is not allowed with DELETECOLLECTION, try again after removing the option"
    )
    assert kept[0] == 500


async def test_option_is_ignored_without_the_gate(tmp_path: Path) -> None:
    async with damaged(tmp_path, "--compatibility-version=1.36") as (admin, _):
        text = [await call(admin, "DELETE", f"{SECRETS}/text", body) for body in ({OPTION: True}, {})]
        intact = await call(admin, "DELETE", f"{SECRETS}/intact", {OPTION: True})
        listed = await call(admin, "GET", SECRETS)

    assert text[0] == text[1]
    assert text[0][0] == 500
    assert "corrupt object" not in text[0][1]["message"]
    assert intact[0] == 200
    assert listed[1]["reason"] == "InternalError"


async def test_unreadable_object_in_etcd_is_deleted(tmp_path: Path) -> None:
    key = b"/registry/secrets/default/text"
    async with running_etcd(tmp_path / "etcd") as etcd, etcd.client() as direct:
        async with serving(tmp_path / "data", *ENABLED, f"--store-servers={etcd.url}") as (admin, _):
            await create(admin, "text")
            revision = (await etcd.stored(key.decode()))[key.decode()].mod_revision
            assert (await direct.put(key, b"damaged", expected=revision))[0]
            unreadable = admin.running.store.collection("core/secrets").unreadable
            await until(lambda: unreadable)
            assert (await call(admin, "DELETE", f"{SECRETS}/text", {OPTION: True}))[0] == 200
            assert (await call(admin, "GET", f"{SECRETS}/text"))[0] == 404
            assert (await call(admin, "GET", SECRETS))[0] == 200
        assert await etcd.stored(key.decode()) == {}
