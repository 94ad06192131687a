"""Options say what is wrong with a value, when it is given."""

from dataclasses import dataclass
from typing import Literal

import pytest

from interlude.errors import UserError, unknown
from interlude.options import Options, option


@dataclass(frozen=True)
class Toy(Options):
    share: float = option(0.1, "a share", at_least=0, below=0.5, why="half is too much")
    count: int | None = option(None, "a count", at_least=1)
    open: float = option(1.0, "above zero", above=0, at_most=2)
    kind: Literal["next", "previous"] = option("next", "one of two words")


def test_defaults_are_taken_and_help_is_kept():
    assert Toy().share == 0.1
    assert Toy.__dataclass_fields__["share"].metadata["help"] == "a share"


@pytest.mark.parametrize(
    "values", [{"share": 0.5}, {"share": -0.1}, {"count": 0}, {"open": 0}, {"open": 2.1}]
)
def test_a_value_outside_its_bounds_is_refused(values):
    (name, value), *_ = values.items()
    with pytest.raises(UserError, match=rf"{name} must be .*, got {value}"):
        Toy(**values)


def test_a_nan_is_outside_every_bound():
    with pytest.raises(UserError, match="got nan"):
        Toy(share=float("nan"))


def test_the_message_says_why():
    with pytest.raises(UserError, match=r"\(half is too much\)"):
        Toy(share=0.7)


def test_none_stands_for_no_value_and_is_not_checked():
    assert Toy(count=None).count is None


def test_an_unknown_name_gets_the_nearest_ones():
    assert (
        str(unknown("method", "fixmach", ["fixmatch", "vat"]))
        == "unknown method 'fixmach'; did you mean 'fixmatch'?"
    )


def test_a_name_unlike_all_others_gets_the_list():
    assert "choose from fixmatch, vat" in str(unknown("method", "zzz", ["vat", "fixmatch"]))


def test_a_word_that_is_no_choice_is_refused_with_the_nearest():
    with pytest.raises(UserError, match="unknown kind 'prev'; did you mean 'previous'"):
        Toy(kind="prev")
