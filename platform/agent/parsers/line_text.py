"""From a line's bytes to text. Pure."""

from .parser import UnparsableLine


def line_text(line: bytes, *, replace_invalid: bool) -> str:
    """Return the line as text without a carriage return at its end. Bytes that are not UTF-8 become U+FFFD where that is
    allowed; else raises `UnparsableLine`.
    """
    if line.endswith(b"\r"):
        line = line[:-1]
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        if replace_invalid:
            return line.decode(errors="replace")
        raise UnparsableLine(
            f'byte {error.start} of the line (0x{line[error.start]:02x}) is not UTF-8: set invalid_utf8 = "replace" to take it'
        ) from error
