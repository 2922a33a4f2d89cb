"""Tests for PEM blocks and the check of certificates with their keys, which follow Go's rules."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.key_pairs import key_pair_problem
from apiserver_stub.validation.pem import Block, blocks
from nodeagent.base.tls import generate_ca

_PAIR = generate_ca("a")
_BROKEN = b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", []),
        (b"-----BEGIN A-----\nQUJD\n-----END A-----\n", [Block("A", b"ABC")]),
        (b"text\n-----BEGIN A-----\r\nQU\r\nJD\r\n-----END A-----", [Block("A", b"ABC")]),
        (b"-----BEGIN A-----\nk: v\n\nQUJD\n-----END A-----\n", [Block("A", b"ABC", {"k": "v"})]),
        (b"-----BEGIN A-----\n-----END A-----\n", [Block("A", b"")]),
        (b"x -----BEGIN A-----\nQUJD\n-----END A-----\n", []),
        (b"-----BEGIN A-----\nQUJ\n-----END A-----\n", []),
        (b"-----BEGIN A-----\nQUJD\n-----END B-----\n", []),
        (b"-----BEGIN A-----\nQUJD\n-----END A----- x\n", []),
        (b"-----BEGIN A-----\n?\n-----END A-----\n-----BEGIN B-----\nQQ==\n-----END B-----\n", [Block("B", b"A")]),
    ],
)
def test_well_formed_blocks_are_found(text: bytes, found: list[Block]) -> None:
    assert list(blocks(text)) == found


@pytest.mark.parametrize(
    ("certificates", "key", "problem"),
    [
        (_PAIR.certificate, _PAIR.key, ""),
        (b"ABC", _PAIR.key, "tls: failed to find any PEM data in certificate input"),
        (_PAIR.certificate, b"ABC", "tls: failed to find any PEM data in key input"),
        (_PAIR.key, _PAIR.certificate, "PEM inputs may have been switched"),
        (_PAIR.certificate, _PAIR.certificate, "found a certificate rather than a key"),
        (b"-----BEGIN A-----\n-----END A-----\n", b"", "PEM blocks of the following types: [A]"),
        (_BROKEN, _PAIR.key, "x509: malformed certificate"),
        (_PAIR.certificate, _BROKEN.replace(b"CERTIFICATE", b"PRIVATE KEY"), "tls: failed to parse private key"),
        (_PAIR.certificate, generate_ca("b").key, "tls: private key does not match public key"),
    ],
)
def test_key_pair_problem_is_that_of_go(certificates: bytes, key: bytes, problem: str) -> None:
    assert problem in key_pair_problem(certificates, key)
    assert bool(problem) == bool(key_pair_problem(certificates, key))
