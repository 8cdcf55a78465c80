"""What a logger may be given to describe its events, and OpenTelemetry's ids in the schemas that have a place for them."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.sdk import EventRefused, SchemaRefused, event_schema, schema_of
from headrace.sdk.forms.event_form import form_of

TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C
SPAN_ID = 0x00F067AA0BA902B7
IDS = {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "00f067aa0ba902b7"}
PLAIN = event_schema("Click", [{"name": "page", "type": "string"}])
TRACED = event_schema("Click", [{"name": "page", "type": "string"}], tracing=True)


@dataclass
class Click:
    page: str
    trace_id: str | None = None
    span_id: str | None = None


@pytest.fixture
def span() -> Any:
    """A real span of OpenTelemetry's API, made current; no SDK behind it."""
    trace = pytest.importorskip("opentelemetry.trace")
    context = trace.SpanContext(TRACE_ID, SPAN_ID, is_remote=False, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED))
    with trace.use_span(trace.NonRecordingSpan(context)):
        yield


@pytest.mark.parametrize("described", [PLAIN, json.dumps(PLAIN), "no json", {"type": "record"}, {"fields": 1}, "[]"])
def test_events_of_a_plain_schema_are_taken_as_they_are(described: Any) -> None:
    form = form_of(described)
    assert form.schema == described
    assert form.to_mapping is None


def test_a_class_is_its_schema_and_its_instances_are_mappings() -> None:
    form = form_of(Click)
    assert form.schema == schema_of(Click)
    assert form.to_mapping is not None
    with pytest.raises(EventRefused):
        form.to_mapping({"page": "/"})
    with pytest.raises(SchemaRefused, match="neither a dataclass nor a TypedDict"):
        form_of(int)


@pytest.mark.usefixtures("span")
@pytest.mark.parametrize(
    ("described", "event"), [(TRACED, {"page": "/"}), (json.dumps(TRACED), {"page": "/", "trace_id": None}), (Click, Click("/"))]
)
def test_the_current_span_is_written_into_the_event(described: Any, event: Any) -> None:
    to_mapping = form_of(described).to_mapping
    assert to_mapping is not None
    assert to_mapping(event) == {"page": "/", **IDS}


@pytest.mark.usefixtures("span")
def test_ids_that_the_event_has_are_kept_and_what_is_no_mapping_is_left_to_the_encoder() -> None:
    to_mapping = form_of(TRACED).to_mapping
    assert to_mapping is not None
    own = {"page": "/", "trace_id": "a", "span_id": "b"}
    assert to_mapping(own) == own
    assert to_mapping(7) == 7


def test_outside_of_a_span_there_are_no_ids() -> None:
    to_mapping = form_of(TRACED).to_mapping
    assert to_mapping is not None
    assert to_mapping({"page": "/"}) == {"page": "/"}


def test_a_tracer_that_fails_loses_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", object())
    to_mapping = form_of(TRACED).to_mapping
    assert to_mapping is not None
    assert to_mapping({"page": "/"}) == {"page": "/"}


def test_opentelemetry_is_not_imported_for_an_application_that_does_not_use_it() -> None:
    program = f"""
import sys
from headrace.sdk.forms.event_form import form_of
assert form_of({TRACED!r}).to_mapping({{"page": "/"}}) == {{"page": "/"}}
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
print("not imported")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "not imported", done.stderr
