"""Copies of topics that were deleted in the source: listed first, then removed; what is not a copy stays."""

import json
import subprocess
import sys

from headrace.client import admin, topic_admin
from tests.integration.mirror.pair import Pair
from tests.support.processes import eventually


def orphans(pair: Pair, *words: str) -> dict[str, object]:
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "orphans", "--from", pair.live.address]
    command += ["--to", pair.offline.address, "--json", *words]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    words_: dict[str, object] = json.loads(answer.stdout)
    return words_


def test_orphaned_copies_are_listed_and_then_deleted_and_nothing_else_is(fresh: Pair) -> None:
    live, offline = fresh.cluster(fresh.live), fresh.cluster(fresh.offline)
    for topic in ("clicks", "flood-1", "flood-2", "views"):
        admin.create_topic(live, topic, 1)
    admin.create_topic(offline, "own", 1)
    fresh.start_mirror()
    eventually(lambda: {"clicks", "flood-1", "flood-2", "views"} <= set(offline.topics()), what="all are copied")
    for topic in ("flood-1", "flood-2", "views"):
        topic_admin.delete_topic(live, topic)
    eventually(lambda: "views" not in live.topics(), what="deleted")
    assert orphans(fresh) == {"orphans": ["flood-1", "flood-2", "views"], "is_deleted": False}
    assert orphans(fresh, "--topics", "flood-.*", "--delete") == {"orphans": ["flood-1", "flood-2"], "is_deleted": True}
    assert orphans(fresh) == {"orphans": ["views"], "is_deleted": False}
    assert {"clicks", "views", "own"} <= set(offline.topics())
