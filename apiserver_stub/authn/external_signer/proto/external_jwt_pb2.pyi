from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SignJWTRequest(_message.Message):
    __slots__ = ("claims",)
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: str
    def __init__(self, claims: _Optional[str] = ...) -> None: ...

class SignJWTResponse(_message.Message):
    __slots__ = ("header", "signature")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    header: str
    signature: str
    def __init__(self, header: _Optional[str] = ..., signature: _Optional[str] = ...) -> None: ...

class FetchKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FetchKeysResponse(_message.Message):
    __slots__ = ("keys", "data_timestamp", "refresh_hint_seconds")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    DATA_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    REFRESH_HINT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    data_timestamp: Timestamp
    refresh_hint_seconds: int
    def __init__(self, keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ..., data_timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., refresh_hint_seconds: _Optional[int] = ...) -> None: ...

class Timestamp(_message.Message):
    __slots__ = ("seconds", "nanos")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NANOS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    nanos: int
    def __init__(self, seconds: _Optional[int] = ..., nanos: _Optional[int] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("key_id", "key", "exclude_from_oidc_discovery")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FROM_OIDC_DISCOVERY_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    key: bytes
    exclude_from_oidc_discovery: bool
    def __init__(self, key_id: _Optional[str] = ..., key: _Optional[bytes] = ..., exclude_from_oidc_discovery: _Optional[bool] = ...) -> None: ...

class MetadataRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MetadataResponse(_message.Message):
    __slots__ = ("max_token_expiration_seconds",)
    MAX_TOKEN_EXPIRATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_token_expiration_seconds: int
    def __init__(self, max_token_expiration_seconds: _Optional[int] = ...) -> None: ...
