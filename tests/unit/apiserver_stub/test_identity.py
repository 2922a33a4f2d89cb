"""Tests that the API server does not depend on the identity of the process."""

from __future__ import annotations

import ast
from pathlib import Path

import apiserver_stub

ROOT = Path(apiserver_stub.__file__).parent
POSITIONS = {"supports": 3, "descriptor": 3, "encode": 2, "decode": 2}
"""Functions of apiproto → position of the API domain, whose default is that of the process."""


def test_calls_of_the_protobuf_codec_have_an_api_domain() -> None:
    calls, lacking = 0, []
    for path in ROOT.rglob("*.py"):
        if b"apiproto" not in (source := path.read_bytes()):
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "apiproto":
                calls += 1
                given = len(node.args) + any(keyword.arg == "api_domain" for keyword in node.keywords)
                if given < POSITIONS.get(node.func.attr, 0):
                    lacking.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert calls
    assert not lacking
