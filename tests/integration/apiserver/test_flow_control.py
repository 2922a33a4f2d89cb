"""Tests for flow schemas and priority levels as API objects."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from .test_limits import MAPS, Slow, a_map, serving, until

GROUP = "/apis/flowcontrol.apiserver.k8s.io"
PAGE = Path(__file__).parents[3] / "docs" / "api-server.md"
MANIFESTS = PAGE.read_text().partition("## Flow control")[2].split("```yaml\n")[1].partition("```")[0]
LEVEL, SCHEMA = yaml.safe_load_all(MANIFESTS)


@pytest.mark.row("opt.enable-priority-and-fairness")
async def test_flow_schema_and_priority_level_limit_the_requests_of_a_user(tmp_path: Path) -> None:
    limits = ["--max-requests-inflight=6", "--max-mutating-requests-inflight=6"]
    async with serving(tmp_path / "data", "--authorization-mode=AlwaysAllow", *limits) as (admin, alice):
        assert (await admin("POST", f"{GROUP}/v1/prioritylevelconfigurations", json=LEVEL))[0] == 201
        code, _, body = await admin("POST", f"{GROUP}/v1/flowschemas", json=SCHEMA)
        assert code == 201
        fairness = admin.running.limits.flow_control
        assert fairness is not None
        await until(lambda: "jail" in fairness.levels and fairness.levels["jail"].seats == 1)
        slow = Slow(admin.running)
        first = asyncio.create_task(alice("POST", MAPS, json=a_map("one")))
        await until(lambda: slow.in_flight == 1)

        rejected, headers, _ = await alice("GET", MAPS)
        table = (await admin("GET", "/debug/api_priority_and_fairness/dump_requests"))[2].decode()

        slow.go.set()
        assert ((await first)[0], rejected) == (201, 429)
        assert headers["x-kubernetes-pf-flowschema-uid"] == json.loads(body)["metadata"]["uid"]
        assert ["jail", "alice"] in [line.replace(",", " ").split()[:2] for line in table.splitlines()]
        assert 'rejected_requests_total{flow_schema="alice",priority_level="jail",reason="concurrency-limit"} 1' in (
            await admin.metrics()
        )


async def test_responses_name_the_flow_schema_unless_the_request_has_no_limits(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--authorization-mode=RBAC") as (admin, alice):
        found = {}
        for name, client, path, headers in (
            ("watch", admin, f"{MAPS}?watch=1&timeoutSeconds=1", {}),
            ("forbidden", alice, MAPS, {}),
            ("unacceptable", admin, MAPS, {"Accept": "text/html"}),
            ("log", alice, "/api/v1/namespaces/default/pods/a/log", {}),
        ):
            code, sent, _ = await client("GET", path, headers=headers)
            found[name] = code, "x-kubernetes-pf-flowschema-uid" in sent

    assert found == {
        "watch": (200, True),
        "forbidden": (403, True),
        "unacceptable": (406, True),
        "log": (403, False),
    }


@pytest.mark.row("gate.ZeroLimitedNominalConcurrencyShares")
async def test_levels_with_zero_shares_are_marked_in_the_beta_version(tmp_path: Path) -> None:
    level: dict[str, Any] = json.loads(json.dumps(LEVEL))
    level["spec"]["limited"]["nominalConcurrencyShares"] = 0
    stable, beta = (f"{GROUP}/{version}/prioritylevelconfigurations" for version in ("v1", "v1beta3"))
    arguments = ["--authorization-mode=AlwaysAllow", "--feature-gates=ZeroLimitedNominalConcurrencyShares=true"]
    async with serving(tmp_path / "data", *arguments) as (admin, _):
        assert (await admin("POST", stable, json=level))[0] == 201

        _, headers, body = await admin("GET", f"{beta}/jail")
        marked = json.loads(body)
        marked["metadata"] = {"name": "other", "annotations": marked["metadata"]["annotations"]}
        await admin("POST", beta, json=marked)
        unmarked = {**marked, "metadata": {"name": "third"}}
        await admin("POST", beta, json=unmarked)

        assert marked["metadata"]["annotations"] == {"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares": ""}
        assert "deprecated in v1.29+, unavailable in v1.32+" in headers["warning"]
        shares = {}
        for name in ("jail", "other", "third"):
            found = json.loads((await admin("GET", f"{stable}/{name}"))[2])
            assert "annotations" not in found["metadata"]
            shares[name] = found["spec"]["limited"]["nominalConcurrencyShares"]
        assert shares == {"jail": 0, "other": 0, "third": 30}


@pytest.mark.row("gate.ZeroLimitedNominalConcurrencyShares")
async def test_level_with_zero_shares_is_rejected_without_the_feature(tmp_path: Path) -> None:
    level: dict[str, Any] = json.loads(json.dumps(LEVEL))
    level["spec"]["limited"]["nominalConcurrencyShares"] = 0
    async with serving(tmp_path / "data", "--authorization-mode=AlwaysAllow") as (admin, _):
        code, _, body = await admin("POST", f"{GROUP}/v1/prioritylevelconfigurations", json=level)

        assert (code, "must be positive" in body.decode()) == (422, True)
