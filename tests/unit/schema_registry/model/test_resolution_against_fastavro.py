"""What we judge readable, fastavro really reads: random pairs of schemas, random data, an independent reader as the judge."""

import io
import json
from typing import Any

import fastavro
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headrace.schema_registry.model.resolution import incompatibilities
from headrace.schema_registry.model.schema import parse_schema
from tests.support.avro_schemas import array, enum, field, fixed, map_of, record

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
ZERO: dict[str, Any] = {
    "null": None, "boolean": False, "int": 0, "long": 0, "float": 0.0, "double": 0.0, "bytes": "", "string": "",
}  # fmt: skip


def types(depth: int) -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        st.sampled_from(PRIMITIVES),
        st.lists(st.sampled_from("ABC"), min_size=1, unique=True).flatmap(
            lambda symbols: st.one_of(st.just(enum(*symbols)), st.just(enum(*symbols, default=symbols[0])))
        ),
        st.sampled_from([fixed(2), fixed(3)]),
    )
    if depth == 0:
        return leaves
    inner = types(depth - 1)
    return st.one_of(leaves, inner.map(array), inner.map(map_of), unions(depth - 1), records(depth - 1))


def unions(depth: int) -> st.SearchStrategy[Any]:
    return st.lists(types(depth), min_size=1, max_size=3).filter(lambda branches: not any(isinstance(b, list) for b in branches))


@st.composite
def records(draw: st.DrawFn, depth: int) -> Any:
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    fields = []
    for name in names:
        kind = draw(types(depth))
        has_default = isinstance(kind, str) and draw(st.booleans())
        fields.append(field(name, kind, ZERO[kind]) if has_default else field(name, kind))
    return record(*fields, name=f"R{depth}")


def unique_names(words: Any, number: list[int], path: str) -> Any:
    """Give every named type a name of its own, made from where it stands, so that reader and writer meet under the same names."""
    if isinstance(words, list):
        return [unique_names(branch, number, f"{path}{index}_") for index, branch in enumerate(words)]
    if isinstance(words, dict):
        renamed = {**words}
        for inside in ("items", "values"):
            if inside in words:
                renamed[inside] = unique_names(words[inside], number, f"{path}i_")
        if "name" in words:
            renamed["name"] = f"{path}{words['name']}"
        if "fields" in words:
            renamed["fields"] = [
                {**one, "type": unique_names(one["type"], number, f"{path}{one['name']}_")} for one in words["fields"]
            ]
        return renamed
    return words


def value_of(words: Any, draw: Any) -> Any:
    if isinstance(words, list):
        index = draw(st.integers(0, len(words) - 1))
        branch = words[index]
        label = branch if isinstance(branch, str) else branch.get("name", branch["type"])
        return (label, value_of(branch, draw))
    kind = words if isinstance(words, str) else words["type"]
    match kind:
        case "null":
            return None
        case "boolean":
            return draw(st.booleans())
        case "int":
            return draw(st.integers(-(2**31), 2**31 - 1))
        case "long":
            return draw(st.integers(-(2**63), 2**63 - 1))
        case "float" | "double":
            return draw(st.floats(width=32, allow_nan=False))
        case "bytes":
            return draw(st.text(max_size=3)).encode()
        case "string":
            return draw(st.text(max_size=3))
        case "enum":
            return draw(st.sampled_from(words["symbols"]))
        case "fixed":
            return draw(st.binary(min_size=words["size"], max_size=words["size"]))
        case "array":
            return [value_of(words["items"], draw) for _ in range(draw(st.integers(0, 2)))]
        case "map":
            return {key: value_of(words["values"], draw) for key in draw(st.sets(st.text(max_size=2), max_size=2))}
        case _:
            return {one["name"]: value_of(one["type"], draw) for one in words["fields"]}


def mutated(words: Any, draw: Any) -> Any:
    """Return a schema near this one: promoted, widened, with fields added and dropped."""
    match draw(st.integers(0, 9)):
        case 0:
            return [words, "null"] if words not in ("null",) and not isinstance(words, list) else words
        case 1:
            return draw(types(1))
        case _:
            pass
    if isinstance(words, str):
        wider = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"], "string": ["bytes"],
                 "bytes": ["string"]}.get(words, [])  # fmt: skip
        return draw(st.sampled_from([words, *wider]))
    if isinstance(words, list):
        return [mutated(branch, draw) for branch in words if not isinstance(branch, list)] or words
    copy = {**words}
    for inside in ("items", "values"):
        if inside in words:
            copy[inside] = mutated(words[inside], draw)
    if "symbols" in words:
        copy["symbols"] = sorted({*words["symbols"], *draw(st.sets(st.sampled_from("ABC")))})
        if "default" not in copy and draw(st.booleans()):
            copy["default"] = copy["symbols"][0]
    if "fields" in words:
        kept = [{**one, "type": mutated(one["type"], draw)} for one in words["fields"] if draw(st.integers(0, 4))]
        for one in kept:
            if "default" in one and one["type"] != next(f["type"] for f in words["fields"] if f["name"] == one["name"]):
                del one["default"]
        if draw(st.booleans()) and not any(one["name"] == "z" for one in kept):
            kept.append(draw(st.sampled_from([field("z", "int", 7), field("z", "string"), field("z", ["null", "int"], None)])))
        copy["fields"] = kept
    return copy


def has_union_of_several(words: Any) -> bool:
    if isinstance(words, list):
        return len([one for one in words if one != "null"]) > 1 or any(has_union_of_several(one) for one in words)
    if isinstance(words, dict):
        inside = [words.get("items"), words.get("values"), *(one["type"] for one in words.get("fields", ()))]
        return any(has_union_of_several(one) for one in inside if one is not None)
    return False


def judged(reader: Any, writer: Any) -> bool:
    try:
        read, written = parse_schema(json.dumps(reader)), parse_schema(json.dumps(writer))
    except Exception:
        assume(False)
    return not incompatibilities(reader=read.type, writer=written.type)


def fastavro_reads(reader: Any, writer: Any, values: list[Any]) -> Any:
    """Return fastavro's first error, None when it reads every value."""
    written, read = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    for value in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, written, value)
        buffer.seek(0)
        try:
            fastavro.schemaless_reader(buffer, written, read)
        except Exception as error:
            return error
        assert not buffer.read(), "bytes are left over"
    return None


SEARCH = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SEARCH
@given(data=st.data())
def test_fastavro_decodes_old_data_with_every_schema_judged_backward_compatible(data: st.DataObject) -> None:
    old = data.draw(types(2))
    new = mutated(old, data.draw)
    writer, reader = unique_names(old, [0], "t"), unique_names(new, [0], "t")
    # fastavro takes the first branch of a union that looks alike from outside, so only unions of one type and null are compared.
    assume(not has_union_of_several(reader))
    assume(judged(reader, writer))
    values = [value_of(writer, data.draw) for _ in range(3)]
    assert fastavro_reads(reader, writer, values) is None


@SEARCH
@given(data=st.data())
def test_every_schema_reads_its_own_data(data: st.DataObject) -> None:
    words = unique_names(data.draw(types(2)), [0], "t")
    assert judged(words, words)
