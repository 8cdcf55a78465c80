"""Changes of verdicts on their way to somebody's server, which fails and comes back."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headrace.audit.service.web import webhook
from headrace.audit.service.web.webhook import Webhook
from headrace.runtime.backoff import Backoff
from tests.support.processes import eventually

SOON = Backoff(first_ms=1, longest_ms=5)


class Receiver:
    """A server that answers with `status` and keeps what it accepted."""

    def __init__(self) -> None:
        self.status = 204
        self.accepted: list[dict[str, Any]] = []
        self.refused = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                words = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if receiver.status == 204:
                    receiver.accepted.append(words)
                else:
                    receiver.refused += 1
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/changes"

    @property
    def changes(self) -> list[int]:
        return [change["n"] for post in self.accepted for change in post["changes"]]

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def hook(receiver: Receiver) -> Iterator[Webhook]:
    made = Webhook(receiver.url, backoff=SOON)
    made.start()
    yield made
    made.stop()


def test_every_change_arrives_once_and_in_order_from_a_server_that_fails_and_comes_back(
    receiver: Receiver, hook: Webhook
) -> None:
    hook.tell([{"n": 1}])
    eventually(lambda: receiver.changes == [1], what="the first change")
    receiver.status = 500
    hook.tell([{"n": 2}])
    eventually(lambda: receiver.refused >= 3, what="tried again")
    hook.tell([{"n": 3}])
    assert "answers 500" in str(hook.failure)
    receiver.status = 204
    eventually(lambda: receiver.changes == [1, 2, 3], what="all changes")
    eventually(lambda: hook.failure is None, what="the failure forgotten")


def test_what_is_told_of_sinks_stands_beside_the_changes_of_verdicts(receiver: Receiver, hook: Webhook) -> None:
    hook.tell([{"n": 1}])
    eventually(lambda: receiver.changes == [1], what="a change of a verdict")
    assert receiver.accepted[0].keys() == {"changes", "dropped"}, "as it always was"
    receiver.status = 500
    hook.tell([{"sink": "sink:files", "to_verdict": "INCOMPLETE"}])
    eventually(lambda: receiver.refused >= 2, what="tried again")
    hook.tell([{"n": 2}])
    receiver.status = 204
    eventually(lambda: receiver.changes == [1, 2], what="the next change")
    eventually(lambda: sum(len(post.get("sinks", ())) for post in receiver.accepted) == 1, what="the sink's, once")
    (of_sinks,) = [post["sinks"] for post in receiver.accepted if "sinks" in post]
    assert of_sinks == [{"sink": "sink:files", "to_verdict": "INCOMPLETE"}]


def test_a_full_queue_drops_its_oldest_and_says_how_many(
    receiver: Receiver, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "MOST_WAITING", 3)
    receiver.status = 503
    hook.tell([{"n": 0}])
    eventually(lambda: receiver.refused > 0, what="the first try")
    hook.tell({"n": n} for n in range(1, 10))
    receiver.status = 204
    eventually(lambda: bool(receiver.changes) and receiver.changes[-1] == 9, what="the newest change")
    assert len(receiver.changes) + sum(post["dropped"] for post in receiver.accepted) == 10
    assert receiver.changes == sorted(receiver.changes)


def test_telling_never_waits_for_a_server_that_is_away() -> None:
    hook = Webhook("http://127.0.0.1:9/", backoff=SOON)
    hook.start()
    hook.tell({"n": n} for n in range(webhook.MOST_WAITING + 5))
    eventually(lambda: hook.failure is not None, what="the failure noted")
    hook.stop()
    assert "does not answer" in str(hook.failure)
