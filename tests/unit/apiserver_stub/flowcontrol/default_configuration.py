"""The default configuration of flow control."""

from __future__ import annotations

from apiserver_stub.defaulting.flow_control_objects import (
    mandatory_levels,
    mandatory_schemas,
    suggested_levels,
    suggested_schemas,
)
from apiserver_stub.flowcontrol.priority_levels import LevelSettings, read_level
from apiserver_stub.flowcontrol.schemas import LEVEL_HEADER, SCHEMA_HEADER, FlowSchema, read_schema
from nodeagent.base.identity import Identity


def default_levels() -> dict[str, LevelSettings]:
    return {name: read_level(spec) for name, spec in (suggested_levels() | mandatory_levels()).items()}


def default_schemas() -> list[FlowSchema]:
    headers = {SCHEMA_HEADER: "a", LEVEL_HEADER: "b"}
    specs = mandatory_schemas() | suggested_schemas(Identity())
    return [read_schema(name, spec, headers) for name, spec in specs.items()]
