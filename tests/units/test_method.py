"""What a method is given and yields, and how it is found."""

import subprocess
import sys

import pytest
import torch

import interlude
from interlude import method as contract
from interlude.errors import UserError
from interlude.method import Clock, Method, Objective, Task, find_method, method_names, register
from interlude.methods.interlude_plus import InterLUDEPlus
from interlude.testing import toy_config

BUILT_IN = ["fixmatch", "freematch", "fully-supervised", "interlude", "interlude-plus", "supervised"]


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """What a test registers is forgotten after it."""
    method_names()
    monkeypatch.setattr(contract, "_methods", dict(contract._methods))


# Objective


def test_the_loss_of_an_objective_is_the_sum_of_its_terms():
    objective = Objective(a=torch.tensor(1.0), b=torch.tensor(-2.5), c=torch.tensor(4.0))
    assert objective.loss == 2.5
    assert list(objective.terms) == ["a", "b", "c"]
    assert objective.rate == 1


def test_an_objective_of_one_term_is_that_term():
    term = torch.tensor(3.0, requires_grad=True)
    assert Objective(only=term).loss is term


def test_an_objective_without_terms_is_refused():
    with pytest.raises(TypeError, match="at least one named term"):
        Objective(rate=0.5)


def test_gradients_of_all_terms_add_up():
    weight = torch.tensor(2.0, requires_grad=True)
    Objective(a=3 * weight, b=weight**2).loss.backward()
    assert weight.grad == 7


def test_logged_values_are_means_without_gradient():
    objective = Objective(a=torch.tensor(1.0))
    values = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    assert objective.log(mask=torch.tensor([True, False, False, True]), size=values) is objective
    objective.log(more=torch.tensor(5))
    assert objective.logged["mask"] == 0.5
    assert objective.logged["size"] == 3
    assert objective.logged["more"] == 5
    assert not objective.logged["size"].requires_grad


# Clock


def test_progress_runs_from_zero_to_just_below_one():
    assert Clock(0, 10).progress == 0
    assert Clock(5, 10).progress == 0.5
    assert Clock(9, 10).progress == 0.9


def test_a_periodic_job_is_due_at_the_first_step_and_each_nth():
    assert [step for step in range(10) if Clock(step, 10).every(4)] == [0, 4, 8]


# Method and task


def test_a_method_without_a_step_says_so():
    task = Task(2, torch.zeros(3), labeled=None, unlabeled=range(5), sweep=None)
    bare = Method(Method.Config(), torch.nn.Linear(1, 1), task)
    with pytest.raises(NotImplementedError, match="Method must define step"):
        bare.step(None, Clock(0, 1))
    assert bare.lr_scale("anything") == 1
    assert task.num_unlabeled == 5


def test_options_of_a_method_are_checked_when_they_are_made():
    with pytest.raises(UserError, match=r"decay must be >= 0 and <= 1, got 1\.5"):
        InterLUDEPlus.Config(decay=1.5)


def test_the_task_of_a_method_is_not_part_of_its_state():
    task = Task(2, torch.zeros(3), labeled=None, unlabeled=(), sweep=None)
    method = Method(Method.Config(), torch.nn.Linear(1, 1), task)
    task.ema = torch.nn.Linear(1, 1)
    assert set(method.state_dict()) == {"model.weight", "model.bias"}


# Registry


def test_what_a_method_file_needs_comes_from_the_package_itself():
    """The public names must not be hidden by modules of the same name once those are imported."""
    needed = ("Batch", "Clock", "Method", "Objective", "Task", "option", "register")
    hidden = [name for name in needed if not callable(getattr(interlude, name))]
    assert not hidden, f"interlude.{hidden[0]} is {getattr(interlude, hidden[0])}"


def test_a_method_is_named_after_its_file():
    assert InterLUDEPlus.name == "interlude-plus"
    assert find_method("interlude-plus") is InterLUDEPlus


def test_the_methods_of_the_folder_are_known():
    assert set(BUILT_IN) <= set(method_names())
    assert method_names() == sorted(method_names())


def test_registering_returns_the_class_and_names_it():
    class Fresh(Method):
        pass

    Fresh.__module__ = "somewhere.my_own_method"
    assert register(Fresh) is Fresh
    assert Fresh.name == "my-own-method"
    assert "my-own-method" in method_names()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("fixmach", "fixmatch"), ("interlude_plus", "interlude-plus"), ("freematc", "freematch")],
)
def test_an_unknown_method_is_answered_with_the_nearest_names(typed, meant):
    with pytest.raises(UserError, match=f"unknown method '{typed}'; did you mean .*'{meant}'"):
        find_method(typed)


def test_a_name_like_no_other_is_answered_with_all_names():
    with pytest.raises(UserError, match=r"choose from .*fixmatch.*supervised"):
        find_method("zzz")


# A method from a file

OWN = '''
from dataclasses import dataclass

import interlude
from interlude.methods.fixmatch import FixMatch


@interlude.register
class {name}(FixMatch):
    """FixMatch with another default."""

    @dataclass(frozen=True)
    class Config(FixMatch.Config):
        threshold: float = interlude.option(0.7, "confidence threshold tau", at_least=0, at_most=1)
'''


def write(folder, file, text):
    path = folder / file
    path.write_text(text)
    return str(path)


def test_a_method_can_come_from_a_file(tmp_path):
    path = write(tmp_path, "my_match.py", OWN.format(name="MyMatch"))
    method = find_method(path)
    assert method.__name__ == "MyMatch"
    assert method.name == "my-match"
    assert method.Config().threshold == 0.7
    assert toy_config(method, threshold=0.6).method.threshold == 0.6


def test_a_file_can_be_read_twice(tmp_path):
    path = write(tmp_path, "my_match.py", OWN.format(name="MyMatch"))
    assert find_method(path).name == find_method(path).name


def test_a_file_with_postponed_annotations_can_be_read(tmp_path):
    text = "from __future__ import annotations\n" + OWN.format(name="Postponed")
    method = find_method(write(tmp_path, "postponed_match.py", text))
    assert toy_config(method, threshold=0.6).method.threshold == 0.6


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no method file .*nothing\.py"):
        find_method(str(tmp_path / "nothing.py"))


def test_a_file_without_a_registered_method_is_refused(tmp_path):
    path = write(tmp_path, "empty_match.py", "from interlude.methods.fixmatch import FixMatch\n")
    with pytest.raises(UserError, match=r"empty_match\.py must .* @interlude\.register.* 0"):
        find_method(path)


def test_a_file_with_two_methods_is_refused(tmp_path):
    text = OWN.format(name="First") + OWN.format(name="Second")
    with pytest.raises(UserError, match=r"two_match\.py must .* @interlude\.register.* 2"):
        find_method(write(tmp_path, "two_match.py", text))


def test_a_file_that_fails_to_import_fails_loudly(tmp_path):
    path = write(tmp_path, "broken_match.py", "import nothing_of_this_name\n")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
        find_method(path)


def test_a_file_named_like_a_built_in_method_does_not_replace_it(tmp_path):
    built_in = find_method("fixmatch")
    own = find_method(write(tmp_path, "fixmatch.py", OWN.format(name="MyMatch")))
    assert own is not built_in
    assert find_method("fixmatch") is built_in, "a user's file has taken the place of a built-in method"


def test_a_file_that_imports_a_built_in_method_leaves_it_known(tmp_path):
    """In a fresh process, where no method was imported before the file."""
    path = write(tmp_path, "my_match.py", OWN.format(name="MyMatch"))
    code = f"from interlude.method import find_method; find_method({path!r}); find_method('fixmatch')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_reading_a_file_leaves_the_modules_of_others_alone(tmp_path):
    before = sys.modules.get("json")
    find_method(write(tmp_path, "json.py", OWN.format(name="MyMatch")))
    assert sys.modules.get("json") is before
