"""Makes the pages that follow from the code: one for each method, the table of speed, the decisions."""

import shlex
import sys
from dataclasses import fields
from pathlib import Path

from interlude.method import Method, find_method, method_names

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import methods_learn  # noqa: E402
from speed import table as speed_table  # noqa: E402

SHARED = "[Many processes](../processes.md) compute what one does."


def write_method_pages(folder: Path) -> None:
    """One page a method, from its docstrings, its views and its options; and a page that lists them."""
    folder.mkdir(exist_ok=True)
    for name in method_names():
        write(folder / f"{name}.md", method_page(name, find_method(name)))
    rows = "\n".join(f"| [{name}]({name}.md) | {summary(find_method(name))} |" for name in method_names())
    table = f"| name | in one line |\n|---|---|\n{rows}"
    toctree = "```{toctree}\n:hidden:\n\n" + "\n".join(method_names()) + "\n```\n"
    write(folder / "index.md", f"# Methods\n\n{table}\n\n{learning()}\n\n{toctree}")


def learning() -> str:
    """What the methods do with half a minute on digits, from the committed results."""
    notes = (Path(__file__).parent / "learning.md").read_text(encoding="utf-8")
    return notes.replace("{table}", methods_learn.table(methods_learn.read()))


def method_page(name: str, method: type[Method]) -> str:
    """The page of one method."""
    story = (sys.modules[method.__module__].__doc__ or "").strip()
    labeled, unlabeled = listing(method.labeled), listing(method.unlabeled)
    views = f"Views: labeled {labeled}; unlabeled {unlabeled}. Default mu: {method.mu}."
    shared = f"Many processes do not end where one does: {method.alone}." if method.alone else SHARED
    options = [option for option in fields(method.Config) if option.name != "name"]
    table = "".join(
        f"| `--method.{option.name.replace('_', '-')}` | `{option.default}` | {option.metadata['help']} |\n"
        for option in options
    )
    section = f"\n## Options\n\n| option | default | meaning |\n|---|---|---|\n{table}" if options else ""
    commands = "\n".join(f"interlude train {line}" for line in recipe_lines(name))
    recipes = f"\n## The paper's experiments\n\n```sh\n{commands}\n```\n"
    return f"# {name}\n\n{summary(method)}\n\n{story}\n\n{views} {shared}\n{section}{recipes}"


def recipe_lines(name: str) -> list[str]:
    """The lines of `recipes/lines.txt` for one method."""
    lines = (ROOT / "recipes" / "lines.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("--") and name in shlex.split(line)]


def write_decision_index(folder: Path) -> None:
    """The list of decisions, by number."""
    names = "\n".join(path.stem for path in sorted(folder.glob("[0-9]*.md")))
    intro = "# Decisions\n\nWhy central things are as they are, half a page each.\n"
    write(folder / "index.md", f"{intro}\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n")


def write_speed_table(path: Path) -> None:
    """The table of the speed benchmarks, and the machine that they ran on, from the committed results."""
    results = speed_table.read()
    machine = results.get("machine", {}).get("processor", "")
    measured = f"Measured on: {machine}.\n" if machine else ""
    write(path, f"{speed_table.render(results['rows'])}\n\n{measured}")


def summary(method: type[Method]) -> str:
    """The first line of a method's docstring."""
    return (method.__doc__ or "").strip().partition("\n")[0]


def listing(views: tuple[str, ...]) -> str:
    """The kinds of views in words."""
    return ", ".join(views) or "none"


def write(path: Path, text: str) -> None:
    """Write a page, leaving an equal one untouched so that Sphinx does not rebuild it."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
