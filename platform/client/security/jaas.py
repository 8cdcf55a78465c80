"""`sasl.jaas.config`, as Kafka's own client files have it: `LoginModule required name="value" …;`. Pure.

Source: the grammar in the class comment of `javax.security.auth.login.Configuration`; Kafka takes one login module only.
"""

import re
from collections.abc import Mapping

_WORD = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s=;"']+)|(=)|(;))""")
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_.]*")
_BARE, _QUOTED, _MARK = "bare", "quoted", "mark"
_FLAGS = ("required", "requisite", "sufficient", "optional")

MODULES: Mapping[str, frozenset[str]] = {
    "PlainLoginModule": frozenset({"PLAIN"}),
    "ScramLoginModule": frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"}),
    "OAuthBearerLoginModule": frozenset({"OAUTHBEARER"}),
}
"""The class names of Kafka's login modules, and the mechanisms that each serves."""


class BadJaas(ValueError):
    """The value is no such configuration. The reason repeats none of its words but names: the rest may be a secret."""


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Return the login module's class name without its package, and its options. Raises `BadJaas`."""
    words = _words(text)
    if len(words) < 3 or words[-1] != (";", _MARK):
        raise BadJaas('it is not `<login module> required name="value" …;`: mind the `;` at its end')
    module, flag = words[0][0], words[1][0].lower()
    if flag not in _FLAGS:
        raise BadJaas("the word after the login module must be `required`")
    name = module.rpartition(".")[2]
    if name not in MODULES:
        raise BadJaas(f"the login module {module} is not spoken: one of {', '.join(MODULES)}")
    options: dict[str, str] = {}
    rest = words[2:-1]
    while rest:
        is_named = rest[0][1] == _BARE and _NAME.fullmatch(rest[0][0])
        if len(rest) < 3 or not is_named or rest[1] != ("=", _MARK) or rest[2][1] == _MARK:
            raise BadJaas(f'option {len(options) + 1} is not `name="value"`')
        if rest[0][0] in options:
            raise BadJaas(f"option {rest[0][0]} is given twice")
        options[rest[0][0]] = rest[2][0]
        rest = rest[3:]
    return name, options


def _words(text: str) -> list[tuple[str, str]]:
    """Return the words, each with its kind."""
    words: list[tuple[str, str]] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = _WORD.match(text, at)
        if found is None:
            raise BadJaas(f"a quote is not closed, or a character is out of place, behind {len(words)} words")
        double, single, bare, equals, end = found.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            words.append((re.sub(r"\\(.)", r"\1", quoted), _QUOTED))
        else:
            words.append((bare or equals or end, _MARK if bare is None else _BARE))
        at = found.end()
    return words
