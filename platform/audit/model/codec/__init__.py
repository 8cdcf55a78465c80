"""Reports as JSON and back. JSON, not registry Avro: the books must be readable when the registry is what is broken.

Layouts: docs/FORMATS.md.
"""

from .reading import decode
from .writing import VERSION, encode

__all__ = ["VERSION", "decode", "encode"]
