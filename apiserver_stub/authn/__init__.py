"""Request authentication: authenticators run in order, and the first to recognize the credentials wins."""

from apiserver_stub.authn.chain import Authenticator

__all__ = ["Authenticator"]
