"""Request pipeline: authentication, audit, limits, authorization, and the dispatch to verbs and endpoints."""
