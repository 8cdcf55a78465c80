from headrace.schema_registry.client import IncompatibleSchema, InvalidSchema, RegistryError
from headrace.sdk.direct.refusals import in_words

URL = "http://127.0.0.1:8081"
ASKED = f"POST {URL}/subjects/clicks-value/versions: "


def words(error: RegistryError) -> str:
    told = in_words(error, topic="clicks", subject="clicks-value", record="shop.Click", registry_url=URL)
    assert type(told) is type(error)
    assert told.error_code == error.error_code  # type: ignore[attr-defined]
    return str(told)


def test_another_record_s_name_is_another_kind_of_event_and_wants_another_topic() -> None:
    reason = "incompatible under BACKWARD: at /name: record shop.Click cannot read record AccessLog (NAME_MISMATCH)"
    told = words(IncompatibleSchema(f"{ASKED}{reason} (error 409)"))
    assert told.startswith("topic 'clicks' holds events of another schema than shop.Click: ")
    assert f"the registry at {URL} refused it for subject 'clicks-value': {reason}. " in told
    assert "POST" not in told
    assert "(error" not in told
    assert "to a topic of their own" in told
    assert "`headrace schema get clicks-value`" in told


def test_a_field_that_breaks_compatibility_wants_a_default() -> None:
    told = words(IncompatibleSchema(f"{ASKED}at /fields/page: READER_FIELD_MISSING_DEFAULT_VALUE (error 409)"))
    assert told.startswith("the schema shop.Click cannot read the events that topic 'clicks' holds already")
    assert "Give each new field a default" in told
    assert "--dry-run" in told


def test_a_schema_that_is_none_is_named() -> None:
    told = words(InvalidSchema(f"{ASKED}no such type 'strin' (error 42201)"))
    assert told.startswith("the schema shop.Click of topic 'clicks' is not a schema for the registry")
    assert "no such type 'strin'" in told


def test_a_refusal_in_another_form_keeps_every_word_and_others_are_left_alone() -> None:
    assert "not so" in words(IncompatibleSchema("not so"))
    other = RegistryError("something else", error_code=40301)
    assert in_words(other, topic="t", subject="s", record="r", registry_url=URL) is other
