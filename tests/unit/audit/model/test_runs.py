"""A producer's run: what is remembered of it is bounded."""

from headrace.audit.model.messages import ProducerReport
from headrace.audit.model.runs import MOST_SEALS, Run, RunKey, Runs


def test_a_run_that_logs_for_months_remembers_its_latest_seals() -> None:
    run = Run(key=RunKey("host/app/1", 1), first_heard_ms=0, heard_ms=0)
    for at in range(2 * MOST_SEALS):
        report = ProducerReport(
            instance="host/app/1", epoch=1, sequence=at, at_ms=at, state="open", producer_ids=(7,), topics=("clicks",),
            moved_past_ms=at * 600_000,
        )  # fmt: skip
        run.take(report, now_ms=at * 600_000 + 5)
    assert len(run.seals) == MOST_SEALS
    assert run.sealed_ms((2 * MOST_SEALS - 1) * 600_000) == (2 * MOST_SEALS - 1) * 600_000 + 5
    assert run.sealed_ms(600_000) == MOST_SEALS * 600_000 + 5  # sealed, and heard of later than it was
    assert run.sealed_ms(2 * MOST_SEALS * 600_000) is None


def announced(runs: Runs, instance: str, epoch: int, *ids: int, topic: str = "clicks") -> RunKey:
    key = RunKey(instance, epoch)
    runs.put(Run(key=key, first_heard_ms=0, heard_ms=0, producer_ids=set(ids), topics={topic}))
    return key


def test_a_forgotten_run_leaves_nothing_behind_and_its_producer_id_to_who_else_announced_it() -> None:
    runs = Runs()
    first = announced(runs, "host/app", 1, 7, -1)
    second = announced(runs, "host/app", 2, 7, 8)
    assert (runs.owner_of(7), runs.owner_of(8), runs.owner_of(-1)) == (second, second, None)
    assert runs.is_needed(runs[second])  # by it the first counts as ended
    assert not runs.is_needed(runs[first])
    runs.forget(second)
    assert (runs.owner_of(7), runs.owner_of(8), [run.key for run in runs.of("clicks")]) == (first, None, [first])
    assert runs.is_needed(runs[first])  # by it the topic is known to have producers
    runs.forget(first)
    assert [len(index) for index in (runs, runs.epochs, runs._by_topic, runs._by_producer_id)] == [0, 0, 0, 0]
