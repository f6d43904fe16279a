"""Makes texts from unknown authors (logs, names, messages) safe for an agent: visible, without secrets, and short.

Pure. An agent can't reliably distinguish instructions from data. So a text must not contain characters that a person
does not see, because such characters may hide instructions. A text must not contain secrets either, because the agent
may send them to others. `tfoperator.base.masking` recognizes the secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfoperator.base.controlchars import in_utf8, plain_text
from tfoperator.base.masking import MASK, is_secret_name, masked

MAX_TEXT = 4000
"""The maximum number of characters of one text in an answer: half of the default size of an answer."""

_MARGIN = 512
"""The number of characters after the end of a shortened text that are also examined, to find a secret that crosses the
end.
"""

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that a person does not see, but that a language model reads, for example U+200B (zero width space)."""


def harmless_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return the text without control characters, invisible characters and secrets; the end of a long text is left out.

    Line ends and tabs stay. At the end of a shortened text is the number of characters that were left out.
    """
    safe = in_utf8(text[: limit + _MARGIN])
    safe = "\n".join(plain_text(line) for line in safe.split("\n")) if not safe.isprintable() else safe
    safe = _INVISIBLE.sub("", safe)
    safe = masked(safe)
    lacking = max(len(text) - limit, 0)
    return f"{safe[:limit]} ... ({lacking} more characters)" if lacking else safe


def harmless(value: Any, limit: int = MAX_TEXT) -> Any:
    """Return plain data with all texts made safe for an agent.

    The value of a variable, a parameter or an option is masked if its name suggests a secret, for example `API_TOKEN`.
    """
    match value:
        case str():
            return harmless_text(value, limit)
        case Mapping():
            return {harmless_text(str(key), limit): _member(value, key, limit) for key in value}
        case list() | tuple():
            return _items(value, limit)
    return value


def _member(holder: Mapping[Any, Any], key: Any, limit: int) -> Any:
    value = holder[key]
    name = holder.get("name") if key == "value" else key  # a variable of a container has the members name and value
    if isinstance(value, str) and isinstance(name, str) and is_secret_name(name) and value:
        return MASK
    return harmless(value, limit)


def _items(values: Sequence[Any], limit: int) -> list[Any]:
    """Return the items; a word after an option whose name suggests a secret (`--token`) is masked."""
    items: list[Any] = []
    is_secret = False
    for value in values:
        items.append(MASK if is_secret and isinstance(value, str) else harmless(value, limit))
        is_secret = isinstance(value, str) and value.startswith("--") and is_secret_name(value)
    return items
