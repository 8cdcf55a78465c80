"""`headrace load --all`: the steps of the load over every topic. A topic's fault stops no other and is reported by name."""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.layout import Layout
from . import load_metrics

StepResult = tuple[dict[str, Any], list[str], Mapping[str, Exception]]
"""The step as JSON, as lines, and its faults by topic."""


def run(layout: Layout, arguments: argparse.Namespace, steps: Sequence[str]) -> int:
    """Run the steps; return FAULTS_EXIT_CODE if one of them failed for a topic."""
    from ..spark.all_topics.job import words_of
    from ..spark.errors import FAULTS_EXIT_CODE

    results: dict[str, Any] = {}
    is_whole = True
    for step in steps:
        words, lines, faults = _run_step(step, layout, arguments)
        results[step] = {**words, "faults": {topic: words_of(fault) for topic, fault in sorted(faults.items())}}
        is_whole = is_whole and not faults
        if not arguments.json:
            print("\n".join(lines), flush=True)
            for topic, fault in sorted(faults.items()):
                print(f"{step}: topic {topic}: {words_of(fault)}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(results))
    return 0 if is_whole else FAULTS_EXIT_CODE


def _run_step(step: str, layout: Layout, arguments: argparse.Namespace) -> StepResult:
    folder, began_s = arguments.metrics_folder, time.monotonic()
    if folder is None:
        return _STEPS[step](layout, arguments)
    try:
        result = _STEPS[step](layout, arguments)
    except BaseException:
        load_metrics.write(folder, step, None, faults=0, took_s=time.monotonic() - began_s)
        raise
    load_metrics.write(folder, step, result[0], faults=len(result[2]), took_s=time.monotonic() - began_s)
    return result


def _load(layout: Layout, arguments: argparse.Namespace) -> StepResult:
    from ..spark.all_topics.job import AllTopicsJob
    from ..spark.load.offline_topics import loadable_topics
    from ..spark.load.settings import ALL_TOPICS, LoadSettings

    topics = loadable_topics(layout)
    done = AllTopicsJob(LoadSettings.of(layout, ALL_TOPICS, master=arguments.master)).run(topics)
    rows: dict[str, int] = {}
    aside: dict[str, int] = {}
    for one in done.loads:
        rows[one.topic] = rows.get(one.topic, 0) + one.row_count
        aside[one.topic] = aside.get(one.topic, 0) + sum(one.quarantined.values())
    words = {"topic_count": done.topic_count, "row_counts": rows, "quarantined": {name: n for name, n in aside.items() if n}}
    lines = [f"load: {rows[topic]:,} rows of {topic}" + (f", {n} in quarantine" if n else "") for topic, n in aside.items()]
    new = f"{len(rows)} with something new" if rows else "nothing new"
    return words, [*lines, f"load: {done.topic_count} topics, {new}: {sum(rows.values()):,} rows"], done.faults


def _count(layout: Layout, arguments: argparse.Namespace) -> StepResult:
    from ..spark.publish.all_tables import count_all

    done = count_all(layout)
    reported = {topic: one for topic, one in done.results.items() if one.load_count}
    words = {"row_counts": {topic: one.row_count for topic, one in reported.items()}}
    lines = [
        f"count: reported {one.row_count:,} rows of {topic} to the audit"
        + (f"; {one.altered_count:,} of them are not as they were decoded" if one.altered_count else "")
        for topic, one in reported.items()
    ]
    return words, lines or ["count: the audit knows every row already"], done.faults


def _publish(layout: Layout, arguments: argparse.Namespace) -> StepResult:
    from ..spark.publish.all_tables import publish_all

    done = publish_all(layout, wait_ms=arguments.wait * 1_000)
    words = {
        topic: {
            "published": list(one.published),
            "withdrawn": dict(one.withdrawn),
            "shut": dict(one.shut),
            "pending": dict(one.pending),
            "complete_through": one.complete_through,
            "expired_through": one.expired_through,
        }
        for topic, one in done.results.items()
    }
    lines = []
    for topic, one in done.results.items():
        lines += [f"publish: {topic}: {len(one.published)} hours published"] if one.published else []
        lines += [f"publish: {topic}: {hour} is withdrawn: {reason}" for hour, reason in one.withdrawn]
        lines += [f"publish: {topic}: {hour} stays as it was published: {reason}" for hour, reason in one.pending]
        lines += [f"publish: {topic}: {hour} stays shut: {reason}" for hour, reason in one.shut]
    return {"topics": words}, lines or ["publish: nothing to open and nothing shut"], done.faults


_STEPS = {"load": _load, "count": _count, "publish": _publish}
