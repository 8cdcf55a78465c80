"""Headrace: a log pipeline that proves nothing was lost on the way.

The rooms of this package live under `platform/` and `spark/` of the repository; each is linked into this folder
(see `docs/decisions/0002-platform-and-the-import-name.md`). Nothing is imported here, so that the SDK stays light.
"""

__version__ = "0.1.0"
