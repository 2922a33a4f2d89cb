"""Tests for the encoding of profiles; they are parsed as pprof does."""

from __future__ import annotations

import gzip

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from nodeagent.base.profiling.encoding import Frame, ValueType, encode_profile, frame_of

INT64, UINT64, STRING, MESSAGE = 3, 4, 9, 11
ONE, MANY = 1, 3
# The parts of profile.proto that are written: message → (number, name, label, type, message type).
FIELDS = {
    "Profile": [
        (1, "sample_type", MANY, MESSAGE, "ValueType"),
        (2, "sample", MANY, MESSAGE, "Sample"),
        (4, "location", MANY, MESSAGE, "Location"),
        (5, "function", MANY, MESSAGE, "Function"),
        (6, "string_table", MANY, STRING, ""),
        (9, "time_nanos", ONE, INT64, ""),
        (10, "duration_nanos", ONE, INT64, ""),
        (11, "period_type", ONE, MESSAGE, "ValueType"),
        (12, "period", ONE, INT64, ""),
    ],
    "ValueType": [(1, "type", ONE, INT64, ""), (2, "unit", ONE, INT64, "")],
    "Sample": [(1, "location_id", MANY, UINT64, ""), (2, "value", MANY, INT64, "")],
    "Location": [(1, "id", ONE, UINT64, ""), (4, "line", MANY, MESSAGE, "Line")],
    "Line": [(1, "function_id", ONE, UINT64, ""), (2, "line", ONE, INT64, "")],
    "Function": [(1, "id", ONE, UINT64, ""), (2, "name", ONE, INT64, ""), (4, "filename", ONE, INT64, "")],
}


def profile_class():
    file = descriptor_pb2.FileDescriptorProto(name="profile_test.proto", package="p", syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, field, label, kind, of in fields:
            message.field.add(name=field, number=number, label=label, type=kind, type_name=f".p.{of}" if of else None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


def test_profile_can_be_decoded():
    inner, outer = Frame("inner", "a.py", 3), Frame("outer", "a.py", 300)
    types = (ValueType("samples", "count"), ValueType("cpu", "nanoseconds"))
    data = encode_profile(
        types,
        {(inner, outer): (2, 20_000_000), (outer,): (1, 10_000_000)},
        at_nanoseconds=1_700_000_000_000_000_000,
        duration_nanoseconds=10**9,
        period=(types[1], 10**7),
    )

    read = profile_class().FromString(gzip.decompress(data))

    text = list(read.string_table)
    functions = {f.id: (text[f.name], text[f.filename]) for f in read.function}
    locations = {at.id: (*functions[at.line[0].function_id], at.line[0].line) for at in read.location}
    assert text[0] == ""
    assert [(text[t.type], text[t.unit]) for t in read.sample_type] == [("samples", "count"), ("cpu", "nanoseconds")]
    assert [([locations[at] for at in s.location_id], list(s.value)) for s in read.sample] == [
        ([("inner", "a.py", 3), ("outer", "a.py", 300)], [2, 20_000_000]),
        ([("outer", "a.py", 300)], [1, 10_000_000]),
    ]
    assert (read.time_nanos, read.duration_nanos, read.period) == (1_700_000_000_000_000_000, 10**9, 10**7)


def test_frame_without_a_line_has_that_of_its_function():
    code = test_profile_can_be_decoded.__code__

    assert frame_of(code, 7).line == 7
    assert frame_of(code, None).line == code.co_firstlineno
