"""The layers of our networks: torch's own by their formulas, the compiled ones by torch's bits."""

import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from interlude import checkpoint
from interlude.arrival import MISSING, Arrival
from interlude.errors import UserError
from interlude.loop import fit
from interlude.methods.interlude import InterLUDE
from interlude.models import ModelConfig, compiled, layers
from interlude.parts.norm import frozen_statistics
from interlude.run import Run
from interlude.testing import toy_config, toy_split
from interlude.training import check_same

CHANNELS = (8, 16, 24, 32, 64, 136)  # what torch takes at once, and multiples of it
SHAPES = ((7, 8, 10), (2, 6, 4), (33, 4, 4), (1, 2, 32))
ON_BOTH = pytest.mark.parametrize("backend", ["torch", "numba"])
ON_CHANNELS = pytest.mark.parametrize("channels", CHANNELS)
ON_THREADS = pytest.mark.parametrize("threads", [1, 2, 3])


@pytest.fixture(autouse=True)
def loops_for_the_smallest_maps(monkeypatch):
    monkeypatch.setattr(compiled, "FEWEST", 0)


@pytest.fixture(autouse=True)
def back_to_auto():
    yield
    layers.use("auto")
    torch.set_num_threads(1)


def maps(channels, shape=SHAPES[0], seed=0):
    count, height, width = shape
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, channels, height, width, generator=generator)
    return values.to(memory_format=torch.channels_last)


def batch_norm(channels, seed=1, **options):
    norm, generator = nn.BatchNorm2d(channels, **options), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for values in (norm.weight, norm.bias, norm.running_mean):
            values.copy_(torch.randn(channels, generator=generator))
        norm.running_var.uniform_(0.5, 2, generator=generator)
    return norm


def state(norm):
    return [*norm.parameters(), *(x.grad for x in norm.parameters()), *norm.buffers()]


def passed(channels, shape=SHAPES[0], steps=3, **options):
    """Norm and activation there and back a few times, and then the norm in evaluation: all that is made."""
    norm, made = batch_norm(channels, **options), []
    for step in range(steps):
        x = maps(channels, shape, seed=step).requires_grad_()
        y = layers.activated(norm, x)
        y.backward(maps(channels, shape, seed=step + 10))
        made += [y.detach(), x.grad, *(x.clone() for x in state(norm))]
    norm.eval()
    with torch.no_grad():
        return [*made, layers.activated(norm, maps(channels, shape))]


def assert_same_bits(made, wanted):
    assert len(made) == len(wanted)
    differing = [i for i, pair in enumerate(zip(made, wanted, strict=True)) if not torch.equal(*pair)]
    assert not differing, f"of {len(made)} tensors, those at {differing} differ"


@pytest.fixture
def by_loops(monkeypatch):
    """Which of the compiled loops were run, but for trials."""
    ran, tried = [], compiled._tried

    def try_quietly(*args, **options):
        before = len(ran)
        result = tried(*args, **options)
        del ran[before:]
        return result

    monkeypatch.setattr(compiled, "_tried", try_quietly)
    for name in ("normalize", "differentiate", "rescale", "pool", "unpool"):
        loop = getattr(compiled.kernels, name)
        monkeypatch.setattr(
            compiled.kernels, name, lambda *args, loop=loop, name=name: (ran.append(name), loop(*args))[1]
        )
    return ran


def test_activation_follows_the_norm():
    x, norm = maps(16), batch_norm(16)
    mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), correction=0, keepdim=True)
    weight, bias = (values.view(1, -1, 1, 1) for values in norm.parameters())
    normal = (x - mean) / (variance + norm.eps).sqrt() * weight + bias
    for backend in ("torch", "numba"):
        layers.use(backend)
        torch.testing.assert_close(layers.activated(norm, x), normal.clamp_min(0) + 0.1 * normal.clamp_max(0))


@ON_THREADS
@ON_CHANNELS
def test_loops_give_the_bits_of_torchs_norm_and_activation(channels, threads, by_loops):
    torch.set_num_threads(threads)
    for shape in SHAPES:
        made = {}
        for backend in ("torch", "numba"):
            layers.use(backend)
            made[backend] = passed(channels, shape)
        assert_same_bits(made["numba"], made["torch"])
    if threads == 1 and channels == 16:
        assert {"normalize", "differentiate", "rescale"} <= set(by_loops), "torch was compared with itself"


@pytest.mark.parametrize("momentum", [0.0, 0.001, 0.1, 1 / 9, 0.5, 1.0])
def test_running_statistics_follow_with_the_same_bits_at_any_pace(momentum):
    made = {}
    for backend in ("torch", "numba"):
        layers.use(backend)
        made[backend] = passed(24, steps=5, momentum=momentum)
    assert_same_bits(made["numba"], made["torch"])


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1e10])
def test_loops_give_the_bits_of_torch_for_tiny_and_huge_numbers(scale):
    made = []
    for backend in ("torch", "numba"):
        layers.use(backend)
        norm, x = batch_norm(16), (maps(16) * scale).requires_grad_()
        layers.activated(norm, x).backward(maps(16, seed=5))
        made.append([x.grad, *state(norm)])
    assert_same_bits(*made)


def test_statistics_that_are_frozen_stay_as_they_are():
    norm = batch_norm(16)
    before = [values.clone() for values in norm.buffers()]
    layers.use("numba")
    with frozen_statistics(nn.Sequential(norm)):
        layers.activated(norm, maps(16))
    assert_same_bits([*norm.buffers()], before)


def test_batches_are_counted():
    norm = batch_norm(16)
    layers.use("numba")
    layers.activated(norm, maps(16))
    layers.activated(norm, maps(16))
    assert norm.num_batches_tracked == 2


def test_no_gradient_is_made_ready_where_none_is_wanted():
    layers.use("numba")
    with torch.no_grad():
        assert layers.activated(batch_norm(16), maps(16)).grad_fn is None


class Doubled(nn.BatchNorm2d):
    """A norm of somebody else's."""

    def forward(self, x):
        return 2 * super().forward(x)


def heard(norm):
    norm.register_forward_hook(lambda *_: None)
    return norm


ODD = {
    "a norm of another class": (Doubled(16), maps(16)),
    "a norm that somebody listens to": (heard(batch_norm(16)), maps(16)),
    "a norm without weights": (nn.BatchNorm2d(16, affine=False), maps(16)),
    "a norm without running statistics": (nn.BatchNorm2d(16, track_running_stats=False), maps(16)),
    "a norm that averages all batches": (nn.BatchNorm2d(16, momentum=None), maps(16)),
    "double precision": (batch_norm(16).double(), maps(16).double()),
    "channels first": (batch_norm(16), maps(16).contiguous()),
    "one channel": (batch_norm(1), maps(1)),
    "one pixel each": (batch_norm(16), maps(16, (40, 1, 1))),
    "every other image": (batch_norm(16), maps(16, (8, 4, 4))[::2]),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("training", [True, False])
def test_what_the_loops_do_not_know_is_left_to_torch(what, training, by_loops):
    norm, x = ODD[what]
    layers.use("numba")
    layers.activated(norm.train(training), x.detach().requires_grad_())
    assert not by_loops


def test_a_few_numbers_are_left_to_torch(monkeypatch, by_loops):
    monkeypatch.setattr(compiled, "FEWEST", maps(16).numel())
    layers.use("numba")
    layers.halved(layers.activated(batch_norm(16), maps(16)))
    assert not by_loops


def test_half_precision_is_left_to_torch(by_loops):
    layers.use("numba")
    with torch.autocast("cpu", torch.bfloat16):
        layers.activated(batch_norm(16), maps(16))
    assert not by_loops


def test_a_gradient_through_a_norm_in_evaluation_is_left_to_torch(by_loops):
    layers.use("numba")
    norm, x = batch_norm(16).eval(), maps(16).requires_grad_()
    layers.activated(norm, x).sum().backward()
    assert x.grad is not None
    assert not by_loops


def test_more_threads_than_can_take_part_are_left_to_torch(by_loops):
    layers.use("numba")
    torch.set_num_threads(compiled.numba.config.NUMBA_NUM_THREADS + 1)
    layers.activated(batch_norm(16), maps(16))
    assert not by_loops


def test_a_gradient_in_another_order_is_the_same_up_to_rounding():
    made = []
    for backend in ("torch", "numba"):
        layers.use(backend)
        x, norm = maps(16).requires_grad_(), batch_norm(16)
        layers.activated(norm, x).backward(maps(16, seed=5).contiguous())
        made.append([x.grad, norm.weight.grad, norm.bias.grad])
    torch.testing.assert_close(*made)


@ON_BOTH
def test_norm_and_activation_can_be_differentiated_twice(backend):
    layers.use(backend)
    norm = batch_norm(8)
    x, dy = maps(8, (2, 2, 4)).requires_grad_(), maps(8, (2, 2, 4), seed=5).requires_grad_()
    y = layers.activated(norm, x)
    (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
    found = torch.autograd.grad(dx.square().sum(), [x, dy, norm.weight])
    want = norm_differentiated_twice(x.detach(), dy.detach(), batch_norm(8))
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)


def norm_differentiated_twice(x, dy, norm):
    """The same of torch's own layers, in double precision."""
    x, dy, norm = x.double().requires_grad_(), dy.double().requires_grad_(), norm.double()
    (dx,) = torch.autograd.grad(F.leaky_relu(norm(x), 0.1), x, dy, create_graph=True)
    return tuple(g.float() for g in torch.autograd.grad(dx.square().sum(), [x, dy, norm.weight]))


@ON_THREADS
@ON_CHANNELS
def test_loops_give_the_bits_of_torchs_pool(channels, threads, by_loops):
    torch.set_num_threads(threads)
    for shape in SHAPES:
        made = []
        for backend in ("torch", "numba"):
            layers.use(backend)
            x = maps(channels, shape).requires_grad_()
            y = layers.halved(x)
            y.backward(y.detach().sin())
            assert y.is_contiguous(memory_format=torch.channels_last)
            made.append([y, x.grad])
        assert_same_bits(*made)
    if threads == 1 and channels == 16:
        assert {"pool", "unpool"} <= set(by_loops), "torch was compared with itself"


def test_of_equal_pixels_the_same_one_has_the_gradient():
    grads = []
    for backend in ("torch", "numba"):
        layers.use(backend)
        x = maps(16).round().requires_grad_()
        layers.halved(x).sum().backward()
        grads.append(x.grad)
    assert_same_bits([grads[0]], [grads[1]])


@ON_BOTH
@pytest.mark.parametrize("place", range(4))
def test_what_is_no_number_stays_one_in_a_pool(backend, place):
    layers.use(backend)
    x = maps(16, (1, 4, 4))
    x[0, :, place // 2, place % 2] = torch.nan
    assert layers.halved(x)[0, :, 0, 0].isnan().all()


@ON_BOTH
def test_nothing_but_minus_infinity_is_the_largest_there_is(backend):
    layers.use(backend)
    x = torch.full_like(maps(16), -torch.inf).requires_grad_()
    y = layers.halved(x)
    y.backward(torch.ones_like(y))
    assert (y == -torch.inf).all()
    assert (x.grad[:, :, ::2, ::2] == 1).all()


@ON_BOTH
@pytest.mark.parametrize("side", [1, 3, 7])
def test_odd_sides_are_rounded_up(backend, side):
    layers.use(backend)
    assert layers.halved(maps(16, (2, side, 4))).shape == (2, 16, (side + 1) // 2, 2)


@ON_BOTH
def test_a_pool_can_be_differentiated_twice(backend):
    layers.use(backend)
    x, dy = maps(8, (2, 4, 6)).requires_grad_(), maps(8, (2, 2, 3), seed=5).requires_grad_()
    (dx,) = torch.autograd.grad(layers.halved(x), x, dy, create_graph=True)
    (found,) = torch.autograd.grad(dx.square().sum(), dy)
    torch.testing.assert_close(found, 2 * dy)


def weights(size):
    return torch.randn(16, 8, size, size, generator=torch.Generator().manual_seed(size))


def two_branches(x, stride):
    """A 3x3 convolution with a stride and a 1x1 one beside it, as in a unit of a Wide ResNet."""
    maps, beside = layers.branched(x, stride)
    return F.conv2d(maps, weights(3), stride=stride, padding=1) + F.conv2d(beside, weights(1))


def two_branches_by_torch(x, stride):
    return F.conv2d(x, weights(3), stride=stride, padding=1) + F.conv2d(x, weights(1), stride=stride)


@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize(("height", "width"), [(8, 10), (7, 5), (1, 1)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_branch_of_picked_pixels_is_a_convolution_with_a_stride(stride, height, width, order):
    x = maps(8, (3, height, width)).to(memory_format=order)
    made = []
    for branches in (two_branches, two_branches_by_torch):
        images = x.clone().requires_grad_()
        y = branches(images, stride)
        y.backward(y.detach().cos())
        made.append((y.detach(), images.grad))
    torch.testing.assert_close(*made)
    assert made[0][1].is_contiguous(memory_format=order)


def test_branches_can_be_differentiated_twice():
    found = []
    for branches in (two_branches, two_branches_by_torch):
        x = maps(8).requires_grad_()
        (dx,) = torch.autograd.grad(branches(x, 2).sin().sum(), x, create_graph=True)
        found += torch.autograd.grad(dx.square().sum(), x)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("context", [torch.no_grad, nullcontext])
def test_the_same_pixels_are_picked_with_and_without_a_gradient(context):
    x = maps(8).requires_grad_()
    with context():
        same, picked = layers.branched(x, 2)
    assert torch.equal(same, x)
    assert torch.equal(picked, x[:, :, ::2, ::2])


@ON_THREADS
@pytest.mark.parametrize("name", ["cnn", "wrn-10-1", "wrn-37-2"])
def test_a_network_has_the_same_bits_with_either_back_end(make, name, threads):
    torch.set_num_threads(threads)
    made = []
    for backend in ("torch", "numba"):
        layers.use(backend)
        model = make(name, size=32, num_classes=10).train()
        images = maps(3, (6, 32, 32))
        for _ in range(2):
            model(images).square().sum().backward()
        logits = model.eval()(images)
        grads = [x.grad for x in model.parameters() if x.grad is not None]
        made.append([logits, *grads, *model.buffers()])
    assert_same_bits(*made)


def with_backend(backend):
    cfg = toy_config(InterLUDE)
    return replace(cfg, model=replace(cfg.model, backend=backend))


def test_a_run_has_the_same_bits_with_either_back_end(by_loops):
    made = []
    for backend in ("torch", "numba"):
        run = Run(with_backend(backend), toy_split(), InterLUDE)
        fit(run)
        made.append(checkpoint.digest(run.state() | {"seconds": 0.0}))
    assert made[0] == made[1]
    assert {"normalize", "differentiate", "pool", "unpool"} <= set(by_loops)


def test_the_back_end_is_no_part_of_what_can_change_a_figure():
    assert len({with_backend(backend).fingerprint() for backend in ("auto", "torch", "numba")}) == 1


def test_a_run_may_go_on_with_another_back_end(tmp_path):
    (tmp_path / "config.yaml").write_text(with_backend("numba").to_yaml())
    check_same(with_backend("torch"), tmp_path)


def test_an_unknown_back_end_is_refused():
    with pytest.raises(UserError, match="unknown backend 'numbra'"):
        ModelConfig(backend="numbra")


def test_torch_never_asks_for_loops(monkeypatch):
    arrival = Arrival("interlude.models.compiled", worth=0)
    monkeypatch.setattr(arrival, "send_for", lambda: pytest.fail("torch was asked for"))
    monkeypatch.setattr(layers, "_arrival", arrival)
    layers.use("torch")
    layers.halved(layers.activated(batch_norm(16), maps(16)))


RECORDERS = {
    "traced": lambda network, x: torch.jit.trace(network, x, check_trace=False)(x),
    "exported": lambda network, x: torch.export.export(network, (x,)).module()(x),
    "transformed": lambda network, x: torch.func.vmap(network)(x[:, None])[:, 0],
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("how", RECORDERS)
def test_loops_leave_no_gap_in_what_torch_records(make, how, by_loops):
    layers.use("numba")
    network, images = make("wrn-10-1", size=32).backbone.eval(), maps(3, (2, 32, 32))
    with torch.no_grad():
        recorded = RECORDERS[how](network, images)
        assert not by_loops
        torch.testing.assert_close(recorded, network(images))
    assert by_loops


def test_auto_goes_over_to_the_loops_once_they_are_there(monkeypatch, by_loops):
    arrival = Arrival("interlude.models.compiled", worth=2 * maps(16).numel())
    monkeypatch.setattr(layers, "_arrival", arrival)
    layers.use("auto")
    for _ in range(2):
        layers.activated(batch_norm(16), maps(16))
    assert arrival._outcome is None, "numba was loaded for a few maps"
    arrival.send_for().result()
    assert not by_loops
    layers.activated(batch_norm(16), maps(16))
    assert by_loops == ["normalize"]


@pytest.fixture
def without_numba(monkeypatch):
    """A machine on which the compiled loops cannot be imported."""
    monkeypatch.setitem(sys.modules, "interlude.models.compiled", None)
    monkeypatch.setattr(layers, "_arrival", Arrival("interlude.models.compiled", worth=0))


@pytest.mark.usefixtures("without_numba")
def test_who_insists_on_numba_hears_at_the_start_how_to_install_it():
    with pytest.raises(UserError, match=r"interlude-ssl\[fast\]"):
        Run(with_backend("numba"), toy_split(), InterLUDE)


@pytest.mark.usefixtures("without_numba")
def test_without_numba_auto_is_torch():
    layers.activated(batch_norm(16), maps(16))
    assert layers._arrival.send_for().result() == MISSING
    assert layers.activated(batch_norm(16), maps(16)).shape == maps(16).shape


def test_loops_that_torch_does_not_agree_with_are_not_used(monkeypatch):
    layers.use("numba")
    monkeypatch.setattr(compiled, "agrees", lambda channels, threads: False)
    assert "do not give the bits of this version of torch" in compiled.compile()
    assert compiled.activated(batch_norm(16), maps(16), 0.1) is None


def test_numba_leaves_torch_its_number_of_threads():
    torch.set_num_threads(1)
    compiled.start_threads()
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("share", [0.001, 0.3, 0.7])
@pytest.mark.parametrize("count", [64, 16 * 1001, 100])
def test_weights_are_moved_to_the_bits_of_a_lerp(count, share):
    old, new = torch.randn(2, count, generator=torch.Generator().manual_seed(0))
    wanted = old.lerp(new, share)
    layers.use("numba")
    layers.Mover(old, new)(share)
    assert torch.equal(old, wanted)


def test_a_mover_tries_the_loop_when_it_has_come_and_keeps_the_bits(monkeypatch):
    arrival = Arrival("interlude.models.compiled", worth=10**6)
    monkeypatch.setattr(layers, "_arrival", arrival)
    old, new = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
    wanted, move = old.clone(), layers.Mover(old, new)
    tried = []
    for share in [0.1, 0.7] * 20:
        wanted.lerp_(new, share)
        move(share)
        tried.append(move._quickest is not None)
        arrival.wait()
    assert tried[:2] == [False, True]
    assert torch.equal(old, wanted)


def test_a_loop_that_gives_other_bits_moves_no_weights(monkeypatch):
    monkeypatch.setattr(compiled, "moves_as_torch", lambda: False)
    assert compiled.mover(torch.zeros(64), torch.ones(64)) is None
