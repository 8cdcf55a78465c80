"""`headrace sink`: which clusters it reads and tells, and what it refuses before it connects to any."""

import argparse

import pytest

from headrace.audit.model.codec import decode, encode
from headrace.audit.model.messages import RangeReport
from headrace.cli import sink
from headrace.cli.errors import UsageError

LIVE, OFFLINE = "live:1", "offline:2"


@pytest.fixture(autouse=True)
def layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.layout.Layout.live_bootstrap", LIVE)
    monkeypatch.setattr("headrace.runtime.layout.Layout.offline_bootstrap", OFFLINE)


def asked(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    sink.configure(parser)
    return parser.parse_args(["files", "--topic", "clicks", "--folder", "/nowhere", *words])


@pytest.mark.parametrize(
    ("words", "clusters"),
    [
        ("", (LIVE, LIVE)),
        ("--bootstrap h:1", ("h:1", "h:1")),
        ("--bootstrap h:1 --audit-bootstrap a:1", ("h:1", "a:1")),
        ("--no-audit", (LIVE, None)),
        ("--cluster offline", (OFFLINE, LIVE)),
        ("--cluster offline --audit-bootstrap a:1", (OFFLINE, "a:1")),
        ("--cluster offline --bootstrap o:1 --audit-bootstrap a:1", ("o:1", "a:1")),
        ("--cluster offline --bootstrap o:1 --no-audit", ("o:1", None)),
        ("--cluster third --bootstrap t:1 --no-audit", ("t:1", None)),
    ],
)
def test_the_clusters(words: str, clusters: tuple[str, str | None]) -> None:
    assert sink._clusters(asked(*words.split())) == clusters


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("--cluster third", "--bootstrap HOST:PORT"),
        ("--cluster third --bootstrap t:1", "give --no-audit"),
        ("--cluster offline --bootstrap o:1", "--audit-bootstrap HOST:PORT, or --no-audit"),
        ("--no-audit --audit-bootstrap a:1", "one of them"),
        ("--group clicks@offline", "another --group, or --no-audit"),
        ("--group a/b", "another --group, or --no-audit"),
        (f"--topic {'x' * 200}", "another --group, or --no-audit"),
    ],
)
def test_what_the_audit_could_not_make_sense_of_is_refused_with_what_to_do(words: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        sink.run(asked(*words.split()))


def test_every_group_that_is_let_in_makes_a_tier_that_the_audit_takes() -> None:
    """Fault: a sink of a group with other characters reported to the audit on and on, which counted each report as malformed."""
    for group in ("a", "A.b_c-9", "x" * 200):
        for cluster in ("live", "offline"):
            tier = sink._tier(group, cluster)
            report = RangeReport(tier=tier, instance="i", at_ms=1, topic="t", partition=0, from_offset=0, to_offset=1, windows={})
            assert decode(encode(report)) == report


def test_sinks_of_one_group_on_both_clusters_are_two_tiers() -> None:
    assert [sink._tier("g", cluster) for cluster in ("live", "offline")] == ["sink:g", "sink:g@offline"]
