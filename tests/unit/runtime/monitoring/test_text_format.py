"""Prometheus' text format, read back by Prometheus' own library."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headrace.runtime.monitoring.process_metrics import process_metrics
from headrace.runtime.monitoring.text_format import Histogram, Metric, each, number, one, text

NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats())
LABELS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\x00\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"))


@given(NUMBERS)
def test_every_number_is_read_back_as_it_was(value: float) -> None:
    """Fault: counters above a million were rounded to six digits, so that a scrape saw no events for hours."""
    back = float(number(value))
    assert back == float(value) or (math.isnan(back) and math.isnan(value))


def test_a_count_in_the_millions_keeps_its_last_digit() -> None:
    assert number(123_456_789) == "123456789"


@given(LABELS, LABELS)
def test_labels_and_help_of_any_text_are_read_back(value: str, doc: str) -> None:
    page = text([Metric("headrace_x_total", "counter", doc, [({"topic": value}, 7)])])
    (family,) = text_string_to_metric_families(page)
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"topic": value}, 7)]


@pytest.mark.parametrize(
    ("name", "kind"), [("x_total", "gauge"), ("x", "counter"), ("1x", "gauge"), ("x y", "gauge"), ("x", "y")]
)
def test_a_name_that_prometheus_would_refuse_is_refused(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        text([Metric(name, kind, "", one(1))])


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_a_histogram_is_read_back_with_its_buckets_count_and_sum(values: list[float]) -> None:
    bounds = (0.5, 10.0, 1_000.0, math.inf)
    histogram = Histogram([(bound, sum(one <= bound for one in values)) for bound in bounds], sum(values))
    (family,) = text_string_to_metric_families(
        text([Metric("headrace_x_seconds", "histogram", "X.", [({"api": "A"}, histogram)])])
    )
    read = {(one.name.removeprefix("headrace_x_seconds"), one.labels.get("le")): one.value for one in family.samples}
    assert family.type == "histogram"
    assert read == {
        **{("_bucket", "+Inf" if bound == math.inf else number(bound)): count for bound, count in histogram.buckets},
        ("_count", None): len(values),
        ("_sum", None): sum(values),
    }
    assert all(one.labels["api"] == "A" for one in family.samples)


def test_of_too_many_labels_the_small_ones_are_summed() -> None:
    values = {f"topic-{number}": float(number) for number in range(10)}
    shown = each("topic", values, most=3)
    assert shown == [({"topic": "topic-7"}, 7), ({"topic": "topic-8"}, 8), ({"topic": "topic-9"}, 9), ({"topic": ""}, 21)]


def test_every_process_tells_its_memory_and_files() -> None:
    families = {family.name: family for family in text_string_to_metric_families(text(process_metrics("test")))}
    assert families["process_resident_memory_bytes"].samples[0].value > 1 << 20
    assert families["process_open_fds"].samples[0].value >= 3
    assert families["headrace_info"].samples[0].labels["role"] == "test"
