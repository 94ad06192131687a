"""One process alone: every shared function gives back what it was given. Groups are dealt out whole."""

import pytest
import torch
from torch import nn

from interlude import distributed, processes
from interlude.distributed import Gradients
from interlude.errors import UserError
from interlude.models.dropout import RowDropout, draw_for_all
from interlude.parts.norm import SyncBatchNorm


@pytest.fixture
def pretend(monkeypatch):
    """Be one of several processes that share out a batch, without any collective."""

    def become(rank, count, groups):
        monkeypatch.setattr(distributed, "num_processes", lambda: count)
        monkeypatch.setattr(distributed, "rank", lambda: rank)
        monkeypatch.setattr(distributed, "_groups", [1])
        distributed.share_out(groups)

    return become


@pytest.mark.parametrize(
    "function",
    [
        distributed.own,
        distributed.like_all,
        distributed.mean_with_gradient,
        distributed.gather,
        distributed.weighted,
        distributed.own_in_pass,
        processes.of_first,
    ],
    ids=lambda function: function.__name__,
)
def test_one_process_gets_back_what_it_gave(function):
    rows = torch.randn(4, 3)
    assert function(rows) is rows


def test_statistics_of_one_process_are_its_own_without_gradient():
    value = torch.randn(3, requires_grad=True)
    for function in (distributed.mean, distributed.total):
        assert torch.equal(function(value), value)
        assert not function(value).requires_grad


@pytest.mark.parametrize(("groups", "count"), [(4, 2), (5, 2), (5, 3), (7, 4), (64, 7)])
def test_groups_are_dealt_out_whole_and_evenly(groups, count, pretend):
    rows, parts, shares = torch.arange(groups * 3), [], []
    for rank in range(count):
        pretend(rank, count, groups)
        parts.append(distributed.own(rows))
        shares.append(distributed.share())
        assert distributed.count(len(parts[-1])) == len(rows)
    assert torch.equal(torch.cat(parts), rows), "each row has one place"
    assert all(len(part) % 3 == 0 for part in parts), "no group is cut"
    assert max(map(len, parts)) - min(map(len, parts)) <= 3
    assert sum(shares) == pytest.approx(1)


def test_a_batch_smaller_than_the_number_of_processes_is_refused(pretend):
    with pytest.raises(UserError, match="a batch of 2 cannot be shared out among 3 processes"):
        pretend(0, 3, 2)


def test_a_process_finds_its_rows_in_views_that_follow_each_other(pretend):
    pretend(1, 2, 5)  # the last two of five groups
    x, u = torch.arange(5), torch.arange(100, 110)
    found = distributed.own_of(torch.cat([x, u]), [2, 4])
    assert found.tolist() == [3, 4, 106, 107, 108, 109]
    with distributed.passing([x[3:], u[6:]]):
        assert distributed.own_in_pass(torch.cat([x, u])).tolist() == found.tolist()


def test_what_is_drawn_for_all_has_their_shape_and_order_in_memory(pretend):
    pretend(0, 2, 5)
    images = torch.zeros(6, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    everyone = distributed.like_all(images)
    assert everyone.shape == (10, 3, 4, 4)
    assert everyone.is_contiguous(memory_format=torch.channels_last)
    assert distributed.like_all(torch.zeros(2, 3, 7), dim=1).shape == (2, 5, 7)


def test_dropout_in_one_process_is_the_usual_one():
    x = torch.randn(6, 5)
    torch.manual_seed(0)
    expected = nn.Dropout(0.3)(x)
    torch.manual_seed(0)
    assert torch.equal(RowDropout(0.3)(x), expected)


def test_dropout_gives_a_row_the_same_chances_in_any_process(pretend):
    x = torch.ones(5, 8)
    torch.manual_seed(0)
    expected = nn.Dropout(0.3)(x)
    found = []
    for rank in range(2):
        pretend(rank, 2, 5)
        torch.manual_seed(0)
        found.append(RowDropout(0.3)(distributed.own(x)))
    assert torch.equal(torch.cat(found), expected)


class DropPath(nn.Module):
    """Under timm's name, with timm's formula."""

    def __init__(self):
        super().__init__()
        self.drop_prob, self.scale_by_keep = 0.5, True

    def forward(self, x):
        return x * x.new_empty(len(x), *[1] * (x.ndim - 1)).bernoulli_(0.5).div_(0.5)


def test_drop_path_leaves_out_the_same_rows_in_any_process(pretend):
    x, found = torch.ones(5, 2, 3), []
    torch.manual_seed(0)
    expected = DropPath()(x)
    for rank in range(2):
        pretend(rank, 2, 5)
        network = nn.Sequential(DropPath())
        draw_for_all(network)
        torch.manual_seed(0)
        found.append(network(distributed.own(x)))
    assert torch.equal(torch.cat(found), expected)


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4, 5)], ids=["vectors", "maps"])
def test_synchronised_batch_norm_is_batch_norm(shape):
    plain = (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(3).double()
    nn.init.uniform_(plain.weight)
    nn.init.uniform_(plain.bias)
    ours = SyncBatchNorm(3).double()
    ours.load_state_dict(plain.state_dict())
    for _ in range(2):
        x = torch.randn(shape, dtype=torch.float64)
        first, second = (x.clone().requires_grad_() for _ in range(2))
        for norm, rows in ((plain, first), (ours, second)):
            norm(rows).pow(3).sum().backward()
        torch.testing.assert_close(ours(x), plain(x))
        torch.testing.assert_close(second.grad, first.grad)
    torch.testing.assert_close(ours.weight.grad, plain.weight.grad)
    torch.testing.assert_close(ours.state_dict(), plain.state_dict())
    torch.testing.assert_close(ours.eval()(x), plain.eval()(x))


def test_gradients_of_one_process_are_those_of_its_loss():
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    Gradients([weight]).of(weight.square().sum())
    assert weight.grad.tolist() == [2, 4]


def test_without_a_launcher_there_is_one_process():
    assert processes.launched({}) == (0, 1)
    assert processes.launched({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) == (0, 1), "a batch script, no step"


def test_torchrun_says_which_process_this_is():
    assert processes.launched({"RANK": "2", "WORLD_SIZE": "4"}) == (2, 4)


def test_srun_says_which_process_this_is():
    environ = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1"}
    with pytest.raises(UserError, match="export MASTER_ADDR"):
        processes.launched(environ)
    environ |= {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    assert processes.launched(environ) == (5, 8)
    assert environ["LOCAL_RANK"] == "1"


def test_a_verb_for_one_process_refuses_many(monkeypatch):
    processes.refuse_many("fit")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="`interlude fit` is for one process"):
        processes.refuse_many("fit")
