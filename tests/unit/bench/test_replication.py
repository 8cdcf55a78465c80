"""`python -m bench.replication`: how its figures are summed up."""

from bench.replication.__main__ import summary
from bench.replication.pauses import percentile


def test_percentiles_are_of_the_nearest_rank() -> None:
    values = [float(one) for one in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (51.0, 100.0, 7.0)


def test_pauses_are_shown_as_percentiles_of_all_rounds_and_the_rest_as_medians() -> None:
    found = summary({"kill -9 of a leader, ms": [300.0, 100.0, 200.0], "messages a second": [1.0, 9.0, 4.0]})
    assert found == {"kill -9 of a leader, ms": "p50 200, p99 300, of 3 pauses", "messages a second": 4.0}
