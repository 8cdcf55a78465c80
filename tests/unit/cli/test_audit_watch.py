"""`headrace audit watch`: something is there at once, and without a terminal each change is printed."""

import argparse
from collections.abc import Iterator

import pytest

from headrace.cli import audit_records


def watched(monkeypatch: pytest.MonkeyPatch, answers: Iterator[str]) -> None:
    """Watch, without a terminal, until the answers end as Ctrl-C ends it."""

    def seen(url: str, topic: str | None) -> str:
        answer = next(answers, None)
        if answer is None:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(audit_records, "_seen", seen)
    assert audit_records.watch(argparse.Namespace(url="http://audit", topic=None, every=0.001, once=False)) == 0


def test_a_header_is_there_before_the_service_has_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(monkeypatch, iter([]))
    assert capsys.readouterr().out == "all topics, from http://audit every 0.001 s; Ctrl-C ends it\n"


def test_without_a_terminal_what_has_changed_is_printed_and_nothing_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(monkeypatch, iter(["clicks OPEN", "clicks OPEN", "clicks COMPLETE"]))
    assert capsys.readouterr().out.splitlines()[1:] == ["clicks OPEN", "clicks COMPLETE"]
