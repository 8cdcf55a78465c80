"""Which pairs of schemas can be read, and how a fault is named. The table follows the Avro specification's own list of rules."""

from typing import Any

import pytest

from headrace.schema_registry.errors import InvalidSchema
from headrace.schema_registry.model.resolution import INCOMPATIBILITY_LIMIT, incompatibilities
from tests.support.avro_schemas import array, enum, field, fixed, map_of, parsed, record

READABLE = [
    # (what, reader, writer)
    ("the same primitive", "string", "string"),
    ("int as long", "long", "int"),
    ("int as float", "float", "int"),
    ("int as double", "double", "int"),
    ("long as float", "float", "long"),
    ("long as double", "double", "long"),
    ("float as double", "double", "float"),
    ("string as bytes", "bytes", "string"),
    ("bytes as string", "string", "bytes"),
    ("items are promoted", array("long"), array("int")),
    ("values are promoted", map_of("double"), map_of("float")),
    ("a branch of the reader's union", ["null", "string"], "string"),
    ("a promoted branch of the reader's union", ["null", "double"], "int"),
    ("every branch of the writer's union", ["null", "string", "int"], ["int", "null"]),
    ("a union of one kind by a plain type", "long", ["int", "long"]),
    ("an empty writer union", "string", []),
    ("a field with a default is added", record(field("a", "int"), field("b", "int", 0)), record(field("a", "int"))),
    ("a field is dropped", record(field("a", "int")), record(field("a", "int"), field("b", "string"))),
    ("fields in another order", record(field("b", "int"), field("a", "string")), record(field("a", "string"), field("b", "int"))),
    ("a field renamed with an alias", record(field("now", "int", aliases=["was"])), record(field("was", "int"))),
    ("a record renamed with an alias", record(name="New", aliases=["Old"]), record(name="Old")),
    ("a record in another namespace", record(name="Event", namespace="a"), record(name="Event", namespace="b")),
    (
        "an alias with a full name",
        record(name="New", namespace="a", aliases=["b.Old"]),
        record(name="Old", namespace="b"),
    ),
    ("a symbol is added", enum("A", "B"), enum("A")),
    ("a symbol is dropped where there is a default", enum("A", default="A"), enum("A", "B")),
    ("an enum renamed with an alias", enum("A", name="New", aliases=["Old"]), enum("A", name="Old")),
    ("the same fixed", fixed(16), fixed(16)),
    (
        "records that contain themselves",
        record(field("next", ["null", "Event"]), field("n", "long")),
        record(field("next", ["null", "Event"]), field("n", "int")),
    ),
    (
        "decimals of one scale",
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    ),
    ("a logical type as its plain one", "long", {"type": "long", "logicalType": "timestamp-millis"}),
]

UNREADABLE = [
    # (what, reader, writer, path, kind, a word of the reason)
    ("long as int", "int", "long", "/", "TYPE_MISMATCH", "int cannot read long"),
    ("double as float", "float", "double", "/", "TYPE_MISMATCH", "double"),
    ("string as int", "int", "string", "/", "TYPE_MISMATCH", "string"),
    ("boolean as int", "int", "boolean", "/", "TYPE_MISMATCH", "boolean"),
    ("array as map", map_of("int"), array("int"), "/", "TYPE_MISMATCH", "map cannot read array"),
    ("items that cannot be", array("int"), array("long"), "/items", "TYPE_MISMATCH", "long"),
    ("values that cannot be", map_of("int"), map_of("string"), "/values", "TYPE_MISMATCH", "string"),
    ("no branch of the reader's", ["null", "int"], "string", "/", "MISSING_UNION_BRANCH", "string"),
    ("one branch of the writer's too many", ["null", "int"], ["null", "int", "string"], "/", "MISSING_UNION_BRANCH", "string"),
    ("a union by a plain type", "int", ["int", "string"], "/", "TYPE_MISMATCH", "branch string"),
    (
        "a field without default is added",
        record(field("a", "int"), field("b", "int")),
        record(field("a", "int")),
        "/fields/b",
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "'b'",
    ),
    (
        "a field renamed without alias",
        record(field("now", "int")),
        record(field("was", "int")),
        "/fields/now",
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "'now'",
    ),
    ("a field's type changes", record(field("a", "int")), record(field("a", "string")), "/fields/a/type", "TYPE_MISMATCH", "int"),
    ("a record renamed without alias", record(name="New"), record(name="Old"), "/name", "NAME_MISMATCH", "Old"),
    (
        "an alias of another namespace",
        record(name="New", aliases=["x.Old"]),
        record(name="Old", namespace="y"),
        "/name",
        "NAME_MISMATCH",
        "y.Old",
    ),
    ("a symbol is dropped", enum("A"), enum("A", "B", "C"), "/symbols", "MISSING_ENUM_SYMBOLS", "B, C"),
    ("an enum renamed", enum("A", name="New"), enum("A", name="Old"), "/name", "NAME_MISMATCH", "Old"),
    ("a fixed of another size", fixed(8), fixed(16), "/size", "FIXED_SIZE_MISMATCH", "16"),
    ("a fixed of another name", fixed(8, name="New"), fixed(8, name="Old"), "/name", "NAME_MISMATCH", "Old"),
    ("a fixed as bytes", "bytes", fixed(8), "/", "TYPE_MISMATCH", "fixed Hash"),
    (
        "decimals of another scale",
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3},
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "/scale",
        "DECIMAL_SCALE_MISMATCH",
        "scale 2",
    ),
    (
        "a fault deep inside a record that contains itself",
        record(field("next", ["null", "Event"]), field("n", "int")),
        record(field("next", ["null", "Event"]), field("n", "long")),
        "/fields/n/type",
        "TYPE_MISMATCH",
        "long",
    ),
    (
        "a fault inside the branch that was meant",
        record(field("k", ["null", enum("A")])),
        record(field("k", ["null", enum("A", "B")])),
        "/fields/k/type/1/symbols",
        "MISSING_ENUM_SYMBOLS",
        "lacks B",
    ),
]


@pytest.mark.parametrize(("reader", "writer"), [pytest.param(r, w, id=what) for what, r, w in READABLE])
def test_the_reader_reads_what_the_writer_wrote(reader: Any, writer: Any) -> None:
    assert incompatibilities(reader=parsed(reader), writer=parsed(writer)) == []


@pytest.mark.parametrize(
    ("reader", "writer", "path", "kind", "word"), [pytest.param(*rest, id=what) for what, *rest in UNREADABLE]
)
def test_the_fault_is_named_with_its_path_and_reason(reader: Any, writer: Any, path: str, kind: str, word: str) -> None:
    faults = incompatibilities(reader=parsed(reader), writer=parsed(writer))
    assert [(fault.path, fault.kind) for fault in faults] == [(path, kind)]
    assert word in faults[0].reason


def test_every_fault_is_named_not_only_the_first() -> None:
    reader = record(field("a", "int"), field("b", "int"), field("c", fixed(4)))
    writer = record(field("a", "string"), field("c", fixed(5)))
    faults = incompatibilities(reader=parsed(reader), writer=parsed(writer))
    assert {fault.path for fault in faults} == {"/fields/a/type", "/fields/b", "/fields/c/type/size"}


def test_the_number_of_named_faults_is_bounded() -> None:
    reader = record(*(field(f"f{n}", "int") for n in range(3 * INCOMPATIBILITY_LIMIT)))
    assert len(incompatibilities(reader=parsed(reader), writer=parsed(record()))) == INCOMPATIBILITY_LIMIT


def test_mutually_recursive_records_are_decided() -> None:
    def schema(kind: str) -> Any:
        other = record(field("back", ["null", "Event"]), field("n", kind), name="Other")
        return record(field("other", ["null", other]))

    assert incompatibilities(reader=parsed(schema("long")), writer=parsed(schema("int"))) == []
    faults = incompatibilities(reader=parsed(schema("int")), writer=parsed(schema("long")))
    assert [fault.path for fault in faults] == ["/fields/other/type/1/fields/n/type"]


@pytest.mark.parametrize("leaf", [("long", "int"), ("int", "long")], ids=["readable", "unreadable"])
def test_a_deep_tree_of_unions_is_decided_in_linear_work(leaf: tuple[str, str]) -> None:
    # Two optional fields at every level: trying each branch again would take 2 to the power of 28 steps.
    def tree(kind: str) -> Any:
        inner: Any = record(field("n", kind), name="R0")
        for level in range(1, 29):
            inner = record(field("left", ["null", inner]), field("right", ["null", f"R{level - 1}"]), name=f"R{level}")
        return inner

    faults = incompatibilities(reader=parsed(tree(leaf[0])), writer=parsed(tree(leaf[1])))
    assert bool(faults) == (leaf[0] == "int")


def test_a_long_chain_of_named_records_does_not_exhaust_the_stack() -> None:
    def chain(kind: str) -> Any:
        names = [record(field("n", kind), name="R0")]
        names += [record(field("inner", f"R{n - 1}"), name=f"R{n}") for n in range(1, 400)]
        return names

    faults = incompatibilities(reader=parsed(chain("int")), writer=parsed(chain("long")))
    assert faults[0].path == "/0/fields/n/type"


def test_the_work_of_one_check_is_bounded() -> None:
    many = [record(field("n", "int"), name=f"R{n}") for n in range(1_500)]
    with pytest.raises(InvalidSchema, match="takes more than"):
        incompatibilities(reader=parsed(many), writer=parsed(many))
