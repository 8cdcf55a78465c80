"""What schemathesis should make up for the registry's own format: loaded by schemathesis, in its own environment.

Schemas are Avro, mostly, so that registering goes all the way. Subjects have no format: any text is one, and schemathesis would
take a made-up one for a rule that the registry breaks.
"""

import json

import schemathesis
from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "B", "c_1", "Event", "x.Y"])
PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])

types = st.deferred(
    lambda: st.one_of(
        PRIMITIVES,
        PRIMITIVES.map(lambda kind: {"type": kind}),
        st.fixed_dictionaries({"type": st.just("array"), "items": types}),
        st.fixed_dictionaries({"type": st.just("map"), "values": types}),
        st.fixed_dictionaries(
            {"type": st.just("enum"), "name": NAMES, "symbols": st.lists(NAMES, min_size=1, max_size=3)},
            optional={"doc": st.text()},
        ),
        st.fixed_dictionaries({"type": st.just("fixed"), "name": NAMES, "size": st.integers(-1, 1 << 40)}),
        st.lists(types, max_size=3),
        st.fixed_dictionaries(
            {
                "type": st.just("record"),
                "name": NAMES,
                "fields": st.lists(
                    st.fixed_dictionaries(
                        {"name": st.sampled_from(["a", "b", "c"]), "type": types},
                        optional={
                            "default": st.one_of(st.none(), st.integers(), st.text(), st.floats(), st.lists(st.integers()))
                        },
                    ),
                    max_size=3,
                ),
            },
            optional={"namespace": st.text(max_size=5), "doc": st.text(), "aliases": st.lists(NAMES)},
        ),
    )
)
texts = st.one_of(types.map(json.dumps), types.map(json.dumps), st.text(min_size=1))

schemathesis.openapi.format("avro-schema", texts)
