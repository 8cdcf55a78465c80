"""Consumer groups of both kinds: members, lag in records and in time, whether a group is a tier, and a reset with a dry run."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ...apps.tail import places
from ...apps.tail.places import PlaceRefused
from ...audit import client as audit
from ...client.cluster_kind import counts_records
from ...client.connection.cluster import Cluster
from ...client.errors import ClientError
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import EARLIEST, LATEST
from ...client.groups import group_admin
from ...client.groups.group_admin import Group, UnknownGroup
from ...client.groups.reset_targets import Reset, targets
from ..answers import ASK_MS, Answers, part
from ..asked import Asked
from ..errors import BadRequest
from ..rendering import render
from ..unread import NOT_COUNTED, counted

GROUPS = 50
REMEMBERED_MS = 3_000
LAGS_MS = 5_000
MOST_TOPICS = 20
"""Topics of a group of which the audit is asked."""
MOST_PARTITIONS = 500
WAYS = {"earliest": "the log's first record", "latest": "the log's end", "time": "a time", "shift": "some records on, or back"}


def list_page(answers: Answers, asked: Asked) -> str:
    """Return the page of all groups."""
    q, after = asked.text("q"), asked.text("after")
    listed = answers.remembered("groups", REMEMBERED_MS, lambda: group_admin.list_groups(answers.live))
    every = listed.value
    shown = [name for name in every if q in name and name > after]
    names = shown[:GROUPS]
    known = answers.soon(f"lags {names}", LAGS_MS, lambda: _lags(answers.live, names))
    tiers, away = part(answers.layout, lambda: audit.tiers(answers.audit_url, timeout_ms=ASK_MS))
    named: dict[str, list[str]] = {}
    for one in tiers or ():
        if one["takes_part"]:
            named.setdefault(one["tier"], []).append(one["topic"])
    return render(
        "groups",
        q=q,
        total=len(every),
        known=known,
        rows=[
            {
                "name": name,
                "group": None if known.value is None else known.value.get(name),
                "in_verdict": named.get(f"consumer:{name}", []),
            }
            for name in names
        ],
        unit="records" if counts_records(answers.live) else "bytes",
        after=names[-1] if len(shown) > GROUPS else None,
        away=away,
        now_ms=answers.clock.now_ms(),
    )


def group_page(answers: Answers, asked: Asked) -> str:
    """Return the page of one group, with what a reset would do if one is asked for."""
    name = asked.needed("group")
    cluster = answers.live
    try:
        group = group_admin.describe_group(cluster, name)
    except UnknownGroup as error:
        raise BadRequest(str(error)) from error
    lags = group_admin.lag_of(cluster, group)
    unread = answers.soon(f"unread {name} {group.committed}", LAGS_MS, lambda: counted(cluster, lags[:MOST_PARTITIONS]))
    readers = {owned: one.member_id for one in group.members for owned in one.partitions or ()}
    topics = sorted({one.partition.topic for one in lags})
    tiers, away = part(answers.layout, lambda: _tiers(answers, topics[:MOST_TOPICS], name))
    plan, refusal = _planned(answers, asked, group)
    return render(
        "group",
        group=group,
        kind=kind_words(group.kind),
        unread=unread,
        rows=[
            {"lag": one, "reader": readers.get(one.partition), **(unread.value or {}).get(one.partition, NOT_COUNTED)}
            for one in lags[:MOST_PARTITIONS]
        ],
        left_out=max(0, len(lags) - MOST_PARTITIONS),
        tiers=tiers or {},
        away=away,
        topics=topics,
        ways=WAYS,
        way=asked.text("to"),
        value=asked.text("value"),
        only=asked.text("only"),
        plan=plan,
        refusal=refusal,
        order=None if plan is None else json.dumps({"group": name, "offsets": [[*one, at] for one, at in sorted(plan.items())]}),
        command=_command(asked, name),
        is_read_only=answers.is_read_only,
        unit="records" if counts_records(cluster) else "bytes",
        now_ms=answers.clock.now_ms(),
    )


def move(answers: Answers, order: Any) -> dict[str, Any]:
    """Move a group to the offsets that a dry run has shown; return what is committed then. Raises BadRequest, ClientError."""
    match order:
        case {"group": str(name), "offsets": [*rows]} if name and rows:
            pass
        case _:
            raise BadRequest('the order is {"group": NAME, "offsets": [[topic, partition, offset], …]}')
    each: dict[TopicPartition, int] = {}
    for row in rows:
        match row:
            case [str(topic), int(partition), int(offset)] if offset >= 0 and not isinstance(partition, bool):
                each[TopicPartition(topic, partition)] = offset
            case _:
                raise BadRequest(f"{str(row)[:80]} is not [topic, partition, offset]")
    cluster = answers.live
    group_admin.check_without_members(cluster, name)
    new = targets(cluster, each, {}, Reset(each=each))
    group_admin.move_offsets(cluster, name, new)
    return {"group": name, "offsets": [[*one, at] for one, at in sorted(new.items())]}


def kind_words(kind: str) -> str:
    """Return a group's kind in words."""
    return {"zookeeper": "coordinates in ZooKeeper", "consumer": "coordinates at the broker", "": "offsets only"}.get(kind, kind)


def _lags(cluster: Cluster, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what the list shows of each group; without those that have ended since they were listed."""
    groups = group_admin.describe_groups(cluster, names)
    lags = group_admin.lags_of(cluster, groups)
    return {
        one.name: {
            "state": one.state,
            "kind": kind_words(one.kind),
            "members": len(one.members),
            "topics": sorted({lag.partition.topic for lag in lags[one.name]}),
            "lag": sum(lag.lag or 0 for lag in lags[one.name]),
            "unknown": sum(lag.lag is None for lag in lags[one.name]),
        }
        for one in groups
    }


def _tiers(answers: Answers, topics: Sequence[str], group: str) -> dict[str, str]:
    """Return topic → what the group is to the audit there."""
    if not topics:
        return {}
    found = {one["topic"]: one for one in audit.tiers(answers.audit_url, *topics, tier=f"consumer:{group}", timeout_ms=ASK_MS)}
    return {topic: _role(found.get(topic)) for topic in topics}


def _role(tier: Mapping[str, Any] | None) -> str:
    if tier is None:
        return "it does not report to the audit"
    return "left out by the settings" if tier["left_out"] else "in the verdict" if tier["takes_part"] else "beside the verdict"


def _planned(answers: Answers, asked: Asked, group: Group) -> tuple[dict[TopicPartition, int] | None, str]:
    """Return where a reset would move the group, and why it cannot; neither if none was asked for."""
    way, value, only = asked.text("to"), asked.text("value"), asked.text("only")
    if not way:
        return None, ""
    cluster = answers.live
    existing = set(cluster.topics())
    partitions = {one for one in group.committed if one.topic in existing and (not only or one.topic == only)}
    if not partitions:
        return None, "The group has committed nothing there."
    try:
        plan = targets(cluster, partitions, group.committed, _reset(way, value))
    except (ClientError, PlaceRefused) as error:
        return None, str(error)
    if group.members:
        are = "member" if len(group.members) == 1 else "members"
        return plan, f"The group has {len(group.members)} {are}, which keep its offsets: stop them first."
    return plan, ""


def _reset(way: str, value: str) -> Reset:
    match way:
        case "earliest":
            return Reset(to_time=EARLIEST)
        case "latest":
            return Reset(to_time=LATEST)
        case "time":
            return Reset(to_time=max(0, places.time_ms(value)))
        case "shift" if value.removeprefix("-").isdecimal() and len(value) < 19:
            return Reset(shift_by=int(value))
        case "shift":
            raise BadRequest(f"value={value[:40]!r} is no number of records: 100, or -100 to go back")
        case _:
            raise BadRequest(f"to={way[:40]!r} is none of {', '.join(WAYS)}")


def _command(asked: Asked, group: str) -> str:
    way, value, only = asked.text("to"), asked.text("value"), asked.text("only")
    flags: Mapping[str, list[str]] = {"time": ["--to-datetime", value], "shift": ["--shift-by", value]}
    words = ["headrace", "group", "reset", group, *(["--topic", only] if only else []), *flags.get(way, [f"--to-{way}"])]
    return shlex.join([*words, "--execute"])
