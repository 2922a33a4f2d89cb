"""Transport: listeners, TLS, HTTP/1.1 and HTTP/2 connections, and the writing of responses."""
