"""Tests for the format of pull records, which is that of the kubelet."""

from __future__ import annotations

import hashlib

import pytest

from nodeagent.contracts.runtime import CredentialOwner, Credentials, OwnerKind
from nodeagent_plugins.image_pull.keyring import credentials_digest
from nodeagent_plugins.image_pull.pull_records import (
    PullCredentials,
    PulledRecord,
    RecordError,
    decode_intent,
    decode_pulled,
    encode_intent,
    encode_pulled,
    matching_owner,
)

RECORD = PulledRecord(
    "sha256:1",
    "2026-01-02T03:04:05Z",
    {
        "reg.test/app": PullCredentials(
            {("shop", "keys", "u1"): "abc"}, frozenset([("shop", "robot", "u2"), ("shop", "admin", "u3")])
        ),
        "busybox": PullCredentials(everyone=True),
    },
)
TEXT = (
    '{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1",'
    '"lastUpdatedTime":"2026-01-02T03:04:05Z","imageRef":"sha256:1","credentialMapping":{'
    '"busybox":{"nodePodsAccessible":true},'
    '"reg.test/app":{"kubernetesSecrets":[{"uid":"u1","namespace":"shop","name":"keys","credentialHash":"abc"}],'
    '"kubernetesServiceAccounts":[{"uid":"u3","namespace":"shop","name":"admin"},'
    '{"uid":"u2","namespace":"shop","name":"robot"}]}}}\n'
)


def test_record_has_the_format_of_the_kubelet() -> None:
    assert encode_pulled(RECORD).decode() == TEXT
    assert decode_pulled(TEXT.encode()) == RECORD


def test_record_without_credentials_has_no_mapping() -> None:
    assert b"credentialMapping" not in encode_pulled(PulledRecord("sha256:1", "2026-01-02T03:04:05Z"))


def test_intent_has_the_format_of_the_kubelet() -> None:
    text = b'{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"reg.test/app:1"}\n'

    assert encode_intent("reg.test/app:1") == text
    assert decode_intent(text.replace(b"v1beta1", b"v1alpha1")) == "reg.test/app:1"


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"\xff", encode_intent("a"), TEXT.replace("v1beta1", "v9").encode()]
)
def test_other_content_is_rejected(text: bytes) -> None:
    with pytest.raises(RecordError):
        decode_pulled(text)


def test_merging_adds_credentials_and_replaces_digests() -> None:
    first = PullCredentials({("a", "b", "c"): "1"})
    merged = first.merged(PullCredentials({("a", "b", "c"): "2"})).merged(
        PullCredentials(accounts=frozenset([("x",) * 3]))
    )

    assert merged == PullCredentials({("a", "b", "c"): "2"}, frozenset([("x", "x", "x")]))
    assert merged.merged(PullCredentials(everyone=True)) == PullCredentials(everyone=True)


def test_credentials_without_owner_belong_to_everyone() -> None:
    assert PullCredentials.of(None).everyone
    assert PullCredentials.of(Credentials("a", "b")).everyone


def test_empty_digest_matches_nothing() -> None:
    recorded = PullCredentials({("a", "b", "c"): ""})
    unrelated = CredentialOwner(OwnerKind.SECRET, "a", "b", "other")

    assert matching_owner(recorded, [unrelated]) is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (("bob", "secret"), '{"username":"bob","password":"secret"}'),
        (("bob", "secret", "b@x.test"), '{"username":"bob","password":"secret","email":"b@x.test"}'),
        (("", "a<&>\u2028é\n"), '{"password":"a\\u003c\\u0026\\u003e\\u2028é\\n"}'),
    ],
)
def test_digest_is_that_of_the_kubelet(fields: tuple[str, ...], text: str) -> None:
    assert credentials_digest(*fields) == hashlib.sha256(text.encode()).hexdigest()
