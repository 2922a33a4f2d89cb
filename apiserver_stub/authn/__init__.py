"""Who asks: one module a method, tried in order; the first that knows the caller decides."""

from apiserver_stub.authn.chain import Authenticator

__all__ = ["Authenticator"]
