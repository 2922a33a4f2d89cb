"""Credentials that the server generates for its administrator and its node."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from nodeagent.base.atomic_file import write_private


def generate_tokens(path: Path, node: str) -> Path:
    """Return the token file of the administrator and of *node*, and generate missing tokens.

    :raises OSError: the file cannot be read or written.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    identities = [line.partition(",")[2] for line in lines]
    expected = ['admin,admin,"system:masters"', f'system:node:{node},node,"system:nodes"']
    if identities != expected:
        admin = lines[0].partition(",")[0] if lines else secrets.token_urlsafe(32)
        tokens = (admin, secrets.token_urlsafe(32))
        text = "".join(f"{token},{identity}\n" for token, identity in zip(tokens, expected, strict=True))
        write_private(path, text.encode())
    return path


def read_tokens(path: Path) -> tuple[str, str]:
    """Return the tokens of the administrator and of the node."""
    admin, node = (line.partition(",")[0] for line in path.read_text().splitlines())
    return admin, node


def write_kubeconfig(path: Path, url: str, authority: Path, user: str, token: str) -> None:
    """Write a kubeconfig for *user* with mode 0600."""
    name, server, ca_file = "nodeagent", _quoted(url), _quoted(str(authority.absolute()))
    lines = (
        "apiVersion: v1",
        "kind: Config",
        "clusters:",
        f"- name: {name}",
        "  cluster:",
        f"    server: {server}",
        f"    certificate-authority: {ca_file}",  # wording: ok
        "users:",
        f"- name: {_quoted(user)}",
        "  user:",
        f"    token: {_quoted(token)}",
        "contexts:",
        f"- name: {name}",
        "  context:",
        f"    cluster: {name}",
        f"    user: {_quoted(user)}",
        f"current-context: {name}",
        "",
    )
    write_private(path, "\n".join(lines).encode())


def _quoted(text: str) -> str:
    """Return a YAML string, which may be in JSON form."""
    return msgspec.json.encode(text).decode()
