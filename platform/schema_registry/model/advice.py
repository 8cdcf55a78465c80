"""Says in words which reader breaks on which field of which writer, and what to do about it. Pure."""

from collections.abc import Sequence

from .compatibility import LevelBreach

REMEDIES = {
    "READER_FIELD_MISSING_DEFAULT_VALUE": "give the field a default in the schema that reads, or write it",
    "TYPE_MISMATCH": "keep the type, or add a field of another name; int may become long, float or double, and string bytes",
    "MISSING_UNION_BRANCH": "keep every branch that was written; a new branch only after every reader knows it",
    "MISSING_ENUM_SYMBOLS": "keep the symbols, or give the enum that reads a default",
    "NAME_MISMATCH": "keep the name, or add the old one to `aliases`",
    "FIXED_SIZE_MISMATCH": "keep the size, or add a field of another name",
    "DECIMAL_SCALE_MISMATCH": "keep the scale, or add a field of another name",
}


def field_of(path: str) -> str:
    """Return a path of a schema as people write it: `/fields/price/type/fields/amount` is `price.amount`."""
    steps = path.strip("/").split("/")
    names = [steps[at + 1] for at, step in enumerate(steps[:-1]) if step == "fields"]
    return ".".join(names)


def sentence(breach: LevelBreach, *, subject: str = "") -> str:
    """Return one breach as a sentence: who cannot read what, at which field, why, and the remedy."""
    of = f" of {subject}" if subject else ""
    if breach.is_new_reader:
        who = f"a reader with the new schema breaks on events of version {breach.version}{of} that are stored already"
    else:
        who = f"a reader that still has version {breach.version}{of} breaks on events of the new schema"
    field = field_of(breach.fault.path)
    where = f"at field `{field}`" if field else "at the schema itself"
    remedy = REMEDIES.get(breach.fault.kind)
    return f"{who}, {where}: {breach.fault.reason}" + (f". Remedy: {remedy}" if remedy else "")


def sentences(breaches: Sequence[LevelBreach], *, subject: str = "") -> list[str]:
    return [sentence(one, subject=subject) for one in breaches]
