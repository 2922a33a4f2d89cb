"""Tests for the model of pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from nodeagent.base import apiproto
from nodeagent.model.pod import ClaimSource, Pod, PodResourceClaim
from nodeagent.model.wire import to_wire

SPECIAL = {
    "Quantity": "1",
    "IntOrString": 1,
    "Time": "2024-01-01T00:00:00Z",
}


def sample(message: Descriptor) -> Any:
    """Return the JSON form of *message* with a value in every field and one item in every list."""
    if message.name in SPECIAL:
        return SPECIAL[message.name]
    found: dict[str, Any] = {}
    for field in message.fields:
        if field.name == "inline":
            found |= sample(field.message_type)
        else:
            found[field.name] = sample_field(field)
    return found


def sample_field(field: FieldDescriptor) -> Any:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return {"key": sample_field(message.fields_by_name["value"])}
    value = sample(message) if message is not None else scalar(field)
    return [value] if field.is_repeated else value


def scalar(field: FieldDescriptor) -> Any:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return True
    return "x" if field.type == FieldDescriptor.TYPE_STRING else 7


def test_every_field_of_the_spec_survives_decoding() -> None:
    spec = sample(apiproto.descriptor("v1", "Pod").fields_by_name["spec"].message_type)

    assert to_wire(msgspec.convert({"spec": spec}, Pod))["spec"] == spec


@pytest.mark.parametrize(
    ("phase", "terminal"),
    [("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)],
)
def test_only_succeeded_and_failed_pods_are_terminal(phase: str, terminal: bool) -> None:
    assert msgspec.convert({"status": {"phase": phase}}, Pod).terminal is terminal


@pytest.mark.parametrize(
    ("claim", "names"),
    [
        (PodResourceClaim("c"), ("", "")),
        (PodResourceClaim("c", "gpu"), ("gpu", "")),
        (PodResourceClaim("c", "", "gpus"), ("", "gpus")),
        (PodResourceClaim("c", source=ClaimSource()), ("", "")),
        (PodResourceClaim("c", source=ClaimSource("gpu")), ("gpu", "")),
        (PodResourceClaim("c", source=ClaimSource("", "gpus")), ("", "gpus")),
        (PodResourceClaim("c", "gpu", "gpus", ClaimSource("a", "b")), ("gpu", "gpus")),
    ],
)
def test_claim_is_named_directly_or_in_its_former_source(claim: PodResourceClaim, names: tuple[str, str]) -> None:
    assert (claim.claim_name, claim.template_name) == names
