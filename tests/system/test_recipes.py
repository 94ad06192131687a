"""Recipes: each file resolves, each method has its lines, and each line is a command that can be given."""

import shlex
from pathlib import Path

import pytest

from interlude.config import Layer, call, read_file, recipe_names, resolve
from interlude.method import method_names
from interlude.run import settle

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "recipes/lines.txt").read_text()
LINES = [line for line in TEXT.splitlines() if line.startswith("--")]


def words(line):
    """The value of each flag of a line."""
    tokens = shlex.split(line)
    return dict(zip(tokens[::2], tokens[1::2], strict=True))


def keep(*, settings=None, config: list[str] | None = None):
    """A verb that returns its configuration."""
    return settings


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_resolves(name):
    resolve([read_file(name)])


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_recipe_opens_with_its_command_and_its_machine(path):
    opening = path.read_text().partition("\n\n")[0]
    assert "interlude train --config" in opening
    assert "achine" in opening, "say on which machine and in what time"


@pytest.mark.parametrize("method", method_names())
def test_every_line_of_a_method_is_a_command(method):
    lines = [line for line in LINES if words(line)["--method"] == method]
    for line in lines:
        config = call(keep, [], shlex.split(line))
        assert config.method.name == method
    recipes = {words(line)["--config"] for line in lines}
    assert recipes == {"cifar10", "cifar100", "stl10", "cifar10-vit", "cifar100-vit", "stl10-vit"}


@pytest.mark.parametrize("recipe", ["quick", "laptop"])
@pytest.mark.parametrize("method", method_names())
def test_a_recipe_for_short_runs_takes_any_method(method, recipe):
    config = settle(resolve([read_file(recipe), Layer("test", {"method": method})]))
    assert config.method.name == method


def test_the_options_of_a_recipes_method_stay_with_that_method():
    own = resolve([read_file("quick")]).method
    assert (own.name, own.decay) == ("interlude-plus", 0.99)
    other = resolve([read_file("quick"), Layer("test", {"method": "freematch"})]).method
    assert other.decay == 0.999, "another method begins with its own defaults"


def test_the_quick_recipe_begins_with_labels_alone():
    config = settle(resolve([read_file("quick")]))
    assert 0 < config.labels_first < config.steps


def test_the_quick_recipe_leaves_the_data_to_the_user():
    assert not read_file("quick").values.keys() & {"data", "labels", "fold", "seed"}
