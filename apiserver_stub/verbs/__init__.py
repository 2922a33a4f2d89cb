"""One module a verb: a request becomes store operations and an answer."""
