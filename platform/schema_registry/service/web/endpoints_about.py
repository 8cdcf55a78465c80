"""Requests about the registry itself: contexts, identity, version, health, and the OpenAPI document."""

from typing import Any

from .... import __version__
from ..topic_store import TopicStore
from ..write_gate import WriteGate
from .endpoints_subjects import Routes
from .http_exchange import Answer, Exchange
from .openapi import document

DEFAULT_CONTEXT = "."
"""The only context; subjects are in it without naming it."""
REGISTRY_CLUSTER = "schema-registry"
"""Confluent's own default for the name of a group of registries."""


def facts(store: TopicStore, gate: WriteGate) -> dict[str, Any]:
    """Return what /readyz says: whether the registry serves, who leads, and what it holds."""
    return {"ready": store.is_caught_up and store.damage is None, **_words(store, gate)}


def _words(store: TopicStore, gate: WriteGate) -> dict[str, Any]:
    with store.state_lock:
        counts = store.state.counts()
    return {
        "topic": store.topic,
        "bootstrap": store.bootstrap,
        "is_caught_up": store.is_caught_up,
        "next_offset": store.next_offset,
        "trouble": store.trouble,
        "mode": "READONLY" if gate.is_read_only else "READWRITE",
        **_leader(gate),
        **counts,
    }


def routes(store: TopicStore, gate: WriteGate) -> Routes:
    """Return method, path and endpoint of each."""

    def front(ask: Exchange) -> Any:
        return {}

    def contexts(ask: Exchange) -> Any:
        prefix = ask.word("contextPrefix") or ""
        return ask.page([DEFAULT_CONTEXT] if DEFAULT_CONTEXT.startswith(prefix) else [])

    def identity(ask: Exchange) -> Any:
        clusters = {"kafka-cluster": store.cluster_id(), "schema-registry-cluster": REGISTRY_CLUSTER}
        return {"id": "", "scope": {"path": [], "clusters": clusters}}

    def version(ask: Exchange) -> Any:
        return {"version": __version__, "commitId": "unknown"}

    def healthy(ask: Exchange) -> Any:
        return {"status": "degraded" if store.trouble else "healthy", **_words(store, gate)}

    def ready(ask: Exchange) -> Any:
        words = facts(store, gate)
        return Answer(words, status=200 if words["ready"] else 503)

    def described(ask: Exchange) -> Any:
        return document()

    return [
        ("GET", "/", front),
        ("POST", "/", front),
        ("GET", "/contexts", contexts),
        ("GET", "/v1/metadata/id", identity),
        ("GET", "/v1/metadata/version", version),
        ("GET", "/healthz", healthy),
        ("GET", "/readyz", ready),
        ("GET", "/openapi.json", described),
    ]


def _leader(gate: WriteGate) -> dict[str, Any]:
    """Return the leader; nothing without elections."""
    facts = gate.facts()
    if facts is None:
        return {}
    return {"leader": facts.leader, "is_leader": facts.is_leader, "leader_epoch": facts.epoch, "leader_trouble": facts.trouble}
