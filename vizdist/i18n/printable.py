"""Text for a terminal."""

import unicodedata


def printable(text: str) -> str:
    """One line without anything that a terminal obeys: a name may hold escape codes or newlines."""
    return text if text.isprintable() else "".join(map(_letter, text))


def _letter(letter: str) -> str:
    is_shown = letter.isprintable() or unicodedata.category(letter) == "Zs"  # no-break spaces
    return letter if is_shown else letter.encode("unicode_escape", "surrogatepass").decode()
