"""Each decoder over its corpus, and over hypothesis's inputs: garbage, and real frames with a few bytes changed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import seeds
from .targets import TARGETS

EXAMPLES = 300
SLOW_EXAMPLES = 40
SLOW = {"log_recovery"}
INTERESTING = st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])


@st.composite
def mutated(draw: st.DrawFn, originals: list[bytes]) -> bytes:
    """Return one of `originals` with bytes changed, removed or doubled."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 4)):
            case 0 if data:
                data[at] = draw(INTERESTING | st.integers(0, 255))
            case 1:
                del data[at : at + draw(st.integers(1, 16))]
            case 2:
                data[at:at] = data[at : at + draw(st.integers(1, 16))]
            case 3:
                number = draw(st.sampled_from([0, 1, -1, 2**15, 2**31 - 1, -(2**31)]))
                data[at : at + 4] = number.to_bytes(4, "big", signed=True)
            case _:
                del data[at:]
    return bytes(data)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_input_of_the_corpus_is_read_or_refused(name: str) -> None:
    for _, data in seeds.inputs(name):
        TARGETS[name](data)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_garbage_and_changed_frames_are_read_or_refused(name: str) -> None:
    originals = [data for _, data in seeds.inputs(name)]
    inputs = st.binary(max_size=300) | mutated(originals) if originals else st.binary(max_size=300)

    @settings(max_examples=SLOW_EXAMPLES if name in SLOW else EXAMPLES)
    @given(inputs)
    def run(data: bytes) -> None:
        TARGETS[name](data)

    run()


def test_every_folder_of_the_corpus_belongs_to_somebody() -> None:
    assert {path.name for path in seeds.FOLDER.iterdir()} <= {*TARGETS, "frames"}
