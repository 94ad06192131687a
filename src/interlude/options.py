"""One setting, declared once: its default, its meaning and its values; and how a verb takes those it has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from interlude.errors import UserError, unknown


def option(
    default: Any,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    why: str = "",
) -> Any:
    """A dataclass field with a help text and bounds; `why` ends the message when a bound is crossed."""
    bounds = {">=": at_least, ">": above, "<=": at_most, "<": below}
    set_bounds = {sign: bound for sign, bound in bounds.items() if bound is not None}
    return field(default=default, metadata={"help": help, "bounds": set_bounds, "why": why})


@dataclass(frozen=True)
class Options:
    """Base of every configuration dataclass: checks its options when it is made, wherever that is."""

    def __post_init__(self) -> None:
        for name, choices in _choices(type(self)).items():
            if getattr(self, name) not in choices:
                raise unknown(name, str(getattr(self, name)), choices)
        for item in fields(self):
            value = getattr(self, item.name)
            bounds = item.metadata.get("bounds", {})
            if bounds and value is not None and not all(_holds(value, *bound) for bound in bounds.items()):
                wanted = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items())
                why = item.metadata["why"] and f" ({item.metadata['why']})"
                raise UserError(f"{item.name} must be {wanted}, got {value}{why}")


def run_verb(name: str, verb: Callable[..., None], tokens: Sequence[str]) -> None:
    """Call a verb of the command line with what its tokens say; a mistake in them is a `UserError`."""
    from cyclopts import App, CycloptsError

    app = App(name=f"interlude {name}", version_flags=[], suppress_keyboard_interrupt=False)
    app.default(verb)
    try:
        app(list(tokens), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UserError(" ".join(str(error).split())) from error


def _choices(options: type[Options]) -> dict[str, tuple[str, ...]]:
    """The fields that take one of a few words, and those words."""
    hints = get_type_hints(options)
    return {
        item.name: get_args(hints[item.name])
        for item in fields(options)
        if get_origin(hints[item.name]) is Literal
    }


def _holds(value: float, sign: str, bound: float) -> bool:
    """Whether `value sign bound`; a NaN holds to nothing."""
    return {">=": value >= bound, ">": value > bound, "<=": value <= bound, "<": value < bound}[sign]
