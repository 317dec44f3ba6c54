"""What `--option NAME=VALUE` may set: a strategy or a workload declares it, a text gives it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracer.model.refusal import Refusal, did_you_mean

Value = bool | int | float | str

_SWITCH: Mapping[str, bool] = {"true": True, "false": False}


class OptionError(Refusal):
    """An option that nobody declares, or a value that it cannot have; the text says what can be."""


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option; its type is that of `default`. `least` bounds a number from below."""

    default: Value
    says: str = ""
    allowed: tuple[str, ...] = ()
    least: float | None = None

    @property
    def type(self) -> str:
        return type(self.default).__name__

    @property
    def rule(self) -> str:
        """What it may be, in words."""
        if choices := self._choices:
            return " or ".join(choices)
        kind = {"int": "a whole number", "float": "a number"}.get(self.type, "any text")
        return kind if self.least is None else f"{kind} from {self.least:g} on"

    def read(self, text: str) -> Value:
        """Raises ValueError for what breaks the rule."""
        if self._choices and text not in self._choices:
            raise ValueError(text)
        if isinstance(self.default, bool):
            return _SWITCH[text]
        value = type(self.default)(text)
        if self.least is not None and not float(value) >= self.least:
            raise ValueError(text)
        return value

    @property
    def _choices(self) -> tuple[str, ...]:
        return tuple(_SWITCH) if isinstance(self.default, bool) else self.allowed


Declared = Mapping[str, Option]


def text_of(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def options_in_force(declared: Declared, given: Iterable[str], who_declare: str) -> dict[str, str]:
    """`NAME=VALUE` texts over the defaults, still as texts, by name.

    Raises OptionError; `who_declare` is such as "one_device and digits-mlp declare".
    """
    texts = {name: text_of(option.default) for name, option in declared.items()}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"--option {text}: write NAME=VALUE")
        if name not in declared:
            known = ", ".join(declared) or "none"
            hint = did_you_mean(name, declared) or "."
            raise OptionError(
                f"--option {text}: no option is named {name!r}{hint} {who_declare}: {known}"
            )
        read_option(name, declared[name], value)
        texts[name] = value
    return texts


def read_option(name: str, option: Option, text: str) -> Value:
    """Raises OptionError."""
    try:
        return option.read(text)
    except ValueError:
        raise OptionError(f"--option {name}={text}: {name} must be {option.rule}") from None


def values_of(declared: Declared, texts: Mapping[str, str]) -> dict[str, Value]:
    """The values of the declared options; other texts belong to somebody else."""
    return {
        name: read_option(name, option, texts[name]) if name in texts else option.default
        for name, option in declared.items()
    }


def option_line(name: str, option: Option) -> str:
    """The option as `tracer list` prints it: `batch=64  int, from 1 on: images in a batch`."""
    says = f": {option.says}" if option.says else ""
    return f"{name}={text_of(option.default)}  ({option.type}: {option.rule}){says}"


def describe_options(declared: Declared) -> dict[str, dict[str, object]]:
    """The options as `tracer list --json` prints them."""
    return {
        name: {
            "type": option.type,
            "default": option.default,
            "allowed": list(option.allowed),
            "least": option.least,
            "says": option.says,
        }
        for name, option in declared.items()
    }
