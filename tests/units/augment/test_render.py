"""Which back end makes the views, and that nobody waits or pays for one that is not used."""

import importlib
import sys
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from interlude import augment
from interlude.adjacent import rooms
from interlude.arrival import MISSING, Arrival
from interlude.augment import AugmentConfig, build, normalize
from interlude.batches import Batches
from interlude.errors import UserError
from interlude.methods.supervised import Supervised
from interlude.testing import toy_config, toy_split
from interlude.training import check_same

module = importlib.import_module("interlude.augment.render")

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
IMAGES = torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8)
WEAK = build()["weak"]
DRAW = WEAK.draw(6, torch.Generator().manual_seed(0))
WANTED = normalize(WEAK.apply(IMAGES, DRAW), MEAN, STD, channels_last=True)


def render(backend, images=IMAGES, augmentation=WEAK):
    return augment.render(images, augmentation, DRAW, MEAN, STD, backend=backend)


@pytest.fixture
def compiler(monkeypatch):
    """A compiler of our own, at work until told what it has made."""
    arrival, future = Arrival("nowhere", worth=2 * IMAGES.numel()), Future()
    monkeypatch.setattr(arrival, "send_for", lambda: future)
    monkeypatch.setattr(module, "_arrival", arrival)
    return future


def loops(batches, places, augmentation, draw, mean, std):
    """Loops whose work can be told from torch's."""
    return lambda: [place.fill_(7) for place in places]


def groups(x, u, augmentations, draws, backend="auto"):
    """The views of x and of u by each augmentation."""
    pairs = [rooms(1, [len(x), len(u)], x.shape[1:], x.device) for _ in augmentations]
    augment.render_groups_into(pairs, x, u, augmentations, draws, MEAN, STD, backend=backend)
    return [(of_x[0], of_u[0]) for of_x, of_u in pairs]


def nobody_asks(monkeypatch, why):
    """A compiler that is not to be asked for anything."""
    arrival = Arrival("nowhere", worth=2 * IMAGES.numel())
    monkeypatch.setattr(arrival, "send_for", lambda: pytest.fail(why))
    monkeypatch.setattr(module, "_arrival", arrival)


@pytest.mark.parametrize("backend", ["auto", "torch", "numba"])
def test_every_back_end_gives_the_same_bits(backend):
    views = render(backend)
    assert torch.equal(views, WANTED)
    assert views.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_groups_give_the_bits_of_their_images_one_by_one(backend):
    augmentations = [build()["weak"], build()["strong"], Inverted()]
    draws = [augmentation.draw(2, torch.Generator().manual_seed(1)) for augmentation in augmentations]
    x, u = IMAGES[:2], IMAGES[2:]
    views = groups(x, u, augmentations, draws, backend)
    for augmentation, draw, (views_x, views_u) in zip(augmentations, draws, views, strict=True):
        for group in range(2):
            members, row = torch.stack([x[group], *u[2 * group : 2 * group + 2]]), torch.full((3,), group)
            alone = augment.render(members, augmentation, augment.take(draw, row), MEAN, STD)
            assert torch.equal(torch.cat([views_x[group, None], views_u[2 * group : 2 * group + 2]]), alone)


def test_loops_run_when_those_of_all_views_are_ready(compiler):
    heard = []

    def slow(*_):
        heard.append("ready")
        return lambda: heard.append("run")

    compiler.set_result(SimpleNamespace(prepare=slow))
    draw = {name: values[:2] for name, values in DRAW.items()}
    groups(IMAGES[:2], IMAGES[2:], [WEAK, WEAK], [draw, draw], "numba")
    assert heard == ["ready", "ready", "run", "run"]


def test_auto_does_not_send_for_loops_before_they_are_worth_it(monkeypatch):
    nobody_asks(monkeypatch, "numba was loaded for a few images")
    for _ in range(2):
        assert torch.equal(render("auto"), WANTED)


def test_auto_goes_on_with_torch_while_a_compiler_works(compiler):
    for _ in range(5):
        assert torch.equal(render("auto"), WANTED)


def test_auto_goes_over_to_the_loops_once_they_are_there(compiler):
    compiler.set_result(SimpleNamespace(prepare=loops))
    assert [bool((render("auto") == 7).all()) for _ in range(4)] == [False, False, True, True]


def test_auto_without_numba_is_torch(compiler):
    compiler.set_result(MISSING)
    for _ in range(4):
        assert torch.equal(render("auto"), WANTED)


def test_torch_never_asks_for_loops(monkeypatch):
    nobody_asks(monkeypatch, "torch was asked for")
    for _ in range(4):
        assert torch.equal(render("torch"), WANTED)


def test_the_loops_are_not_asked_about_images_elsewhere(monkeypatch):
    nobody_asks(monkeypatch, "the images are not on the CPU")
    for backend in ("auto", "numba"):
        views = render(backend, IMAGES.to("meta"), Inverted())
        assert (views.device.type, views.shape) == ("meta", WANTED.shape)


class Inverted:
    """An augmentation of somebody else's."""

    def draw(self, n, generator):
        return {}

    def apply(self, images, draw):
        return 255 - images


def test_an_augmentation_that_the_loops_do_not_know_is_left_to_torch():
    wanted = normalize(255 - IMAGES, MEAN, STD, channels_last=True)
    assert torch.equal(render("numba", augmentation=Inverted()), wanted)


@pytest.fixture
def without_numba(monkeypatch):
    """A machine on which the compiled loops cannot be imported."""
    monkeypatch.setitem(sys.modules, "interlude.augment.compiled", None)
    monkeypatch.setattr(module, "_arrival", Arrival("interlude.augment.compiled", worth=0))


def toy_batches(backend):
    return Batches(toy_split(), build(), batch=4, mu=2, seed=0, device=torch.device("cpu"), backend=backend)


@pytest.mark.usefixtures("without_numba")
def test_who_insists_on_numba_hears_at_the_start_how_to_install_it():
    with pytest.raises(UserError, match=r"interlude-ssl\[fast\]"):
        toy_batches("numba")


@pytest.mark.usefixtures("without_numba")
def test_without_numba_auto_finds_no_loops():
    assert module._arrival.send_for().result() == MISSING


@pytest.mark.parametrize("shared", [True, False])
def test_a_batch_has_the_same_bits_with_either_back_end(shared):
    kinds = ("weak", "strong")
    one, two = (toy_batches(backend)(3, kinds, kinds, shared_draws=shared) for backend in ("torch", "numba"))
    assert all(map(torch.equal, (*one.x, *one.u), (*two.x, *two.u)))


def test_a_sweep_has_the_same_bits_with_either_back_end():
    one, two = (toy_batches(backend) for backend in ("torch", "numba"))
    images = one.split.unlabeled
    assert all(map(torch.equal, one.sweep(images, "weak"), two.sweep(images, "weak")))


def test_an_unknown_back_end_is_refused():
    with pytest.raises(UserError, match="unknown backend 'numbra'"):
        AugmentConfig(backend="numbra")


def with_backend(backend):
    cfg = toy_config(Supervised)
    return replace(cfg, augment=replace(cfg.augment, backend=backend))


def test_the_back_end_is_no_part_of_what_can_change_a_figure():
    assert len({with_backend(backend).fingerprint() for backend in ("auto", "torch", "numba")}) == 1


def test_a_run_may_go_on_with_another_back_end(tmp_path):
    (tmp_path / "config.yaml").write_text(with_backend("numba").to_yaml())
    check_same(with_backend("torch"), tmp_path)
