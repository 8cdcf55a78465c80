"""Subjects, their versions, what changed between two of them, and who breaks on it."""

import json

from ...client.groups.topic_readers import groups_of
from ...schema_registry.client import comparing, transfer
from ...schema_registry.client.schema_set import SetVersion, topic_of
from ...schema_registry.errors import RegistryError
from ..answers import Answers, part
from ..asked import Asked
from ..errors import BadRequest
from ..rendering import render

SUBJECTS = 200


def list_page(answers: Answers, asked: Asked) -> str:
    """Return the page of all subjects."""
    q, after = asked.text("q"), asked.text("after")
    every = answers.registry.subjects()
    shown = [name for name in every if q in name and name > after]
    names = shown[:SUBJECTS]
    return render(
        "schemas",
        q=q,
        total=len(every),
        rows=[{"subject": name, "topic": topic_of(name)} for name in names],
        after=names[-1] if len(shown) > SUBJECTS else None,
        now_ms=answers.clock.now_ms(),
    )


def subject_page(answers: Answers, asked: Asked) -> str:
    """Return the page of one subject: versions, a comparison of two, and its users."""
    subject = asked.needed("subject")
    schemas = transfer.of_subject(answers.registry, subject)
    present = schemas.present(subject)
    if not present:
        raise BadRequest(f"there is no subject {subject!r}: the list of schemas shows those there are")
    new = _chosen(present, asked.whole("new", range(1, 1 << 31)), present[-1])
    before = [one for one in present if one.version < new.version]
    old = _chosen(present, asked.whole("old", range(1, 1 << 31)), before[-1] if before else new)
    level = schemas.level(subject)
    fault, changes, breaks = "", [], []
    try:
        changes = comparing.changes(schemas, old, new)
        breaks = comparing.breaks(schemas, subject, before, new, level)
    except RegistryError as error:  # a version that is not Avro, or refers to something that is gone
        fault = str(error)
    topic = topic_of(subject)
    readers, away = part(answers.layout, lambda: [] if topic is None else groups_of(answers.live, topic))
    return render(
        "schema",
        subject=subject,
        topic=topic,
        level=str(level),
        versions=present,
        old=old,
        new=new,
        changes=changes,
        breaks=breaks,
        fault=fault,
        text=indented(new.schema),
        readers=readers,
        away=away,
        now_ms=answers.clock.now_ms(),
    )


def _chosen(present: list[SetVersion], number: int | None, default: SetVersion) -> SetVersion:
    if number is None:
        return default
    found = next((one for one in present if one.version == number), None)
    if found is None:
        raise BadRequest(f"there is no version {number}: it has {', '.join(str(one.version) for one in present)}")
    return found


def indented(text: str) -> str:
    """Return JSON on many lines; other text (Protobuf) as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
