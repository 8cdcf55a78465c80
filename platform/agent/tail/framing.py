"""From a block of bytes to lines. Pure.

The same block with the same flags gives the same lines: a range that is read again after a crash is cut in the same way.
"""

from dataclasses import dataclass, field

NEWLINE = b"\n"
NUL = b"\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Framed:
    """The lines at the beginning of a block."""

    lines: list[bytes]
    """Without their line ends."""
    first_offset: int
    """Where in the block the first line begins: behind the rest of a line that was too long, or behind a hole."""
    consumed: int
    """Bytes of the block that are done with."""
    is_inside_long_line: bool
    """The last line continues behind the block; it is too long already, and its rest is to be dropped."""
    hole_bytes: int
    """NUL bytes in front that stand for nothing: what a writer leaves that continues at its old place after a truncation."""
    too_long: frozenset[int] = field(default_factory=frozenset)
    """Indexes of lines that are longer than the limit."""


def frame(block: bytes, *, limit_bytes: int, is_inside_long_line: bool, takes_rest: bool) -> Framed:
    """Return the lines of a block that begins at a line's start, or `is_inside_long_line`.

    `takes_rest`: what is behind the last newline is a line too (the file will not grow, or the range is known to end there).
    Without it, such a rest is 'not yet', unless it is longer than the limit.
    """
    start = hole_bytes = 0
    if is_inside_long_line:
        start = block.find(NEWLINE) + 1
        if not start:
            return Framed(
                lines=[], first_offset=len(block), consumed=len(block), is_inside_long_line=not takes_rest, hole_bytes=0
            )
    elif block.startswith(NUL):
        start = hole_bytes = len(block) - len(block.lstrip(NUL))
    end = block.rfind(NEWLINE, start) + 1 or start
    lines = block[start:end].split(NEWLINE)
    rest = lines.pop() or block[end:]
    goes_on = False
    # A hole in the middle is left for the next block, which begins with it.
    if rest and (takes_rest or (len(rest) > limit_bytes and not rest.startswith(NUL))):
        lines.append(rest)
        end = len(block)
        goes_on = not takes_rest
    # Finding the longest line is faster than checking every line.
    longest = max(map(len, lines), default=0)
    too_long = (
        frozenset(index for index, line in enumerate(lines) if len(line) > limit_bytes) if longest > limit_bytes else frozenset()
    )
    return Framed(
        lines=lines, first_offset=start, consumed=end, is_inside_long_line=goes_on, hole_bytes=hole_bytes, too_long=too_long
    )
