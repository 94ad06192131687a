import pytest

from interlude.data.address import parse_address
from interlude.errors import UserError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("cifar10", ("cifar10", None, 0)),
        ("cifar10@40", ("cifar10", 40, 0)),
        ("cifar10@40/fold2", ("cifar10", 40, 2)),
        ("fashion-mnist@250/fold11", ("fashion-mnist", 250, 11)),
        ("cifar10.3@40-1", ("cifar10", 40, 3)),
        ("cifar10.3@40", ("cifar10", 40, 3)),
        ("npz:data/my.3@40", ("npz:data/my.3", 40, 0)),
        ("npz:/home/me@here/a.npz", ("npz:/home/me@here/a.npz", None, 0)),
        ("npz:/home/me@here/a.npz@40/fold1", ("npz:/home/me@here/a.npz", 40, 1)),
    ],
)
def test_an_address_is_read(text, address):
    assert parse_address(text, None, 0) == address


def test_what_is_said_outside_fills_what_the_address_leaves_open():
    assert parse_address("cifar10", 250, 3) == ("cifar10", 250, 3)
    assert parse_address("cifar10@40", None, 3) == ("cifar10", 40, 3)


def test_saying_the_same_twice_is_allowed():
    assert parse_address("cifar10@40/fold2", 40, 2) == ("cifar10", 40, 2)


@pytest.mark.parametrize(("labels", "fold"), [(250, 0), (None, 1)])
def test_contradicting_an_address_is_an_error(labels, fold):
    with pytest.raises(UserError, match="drop one"):
        parse_address("cifar10@40/fold2", labels, fold)


@pytest.mark.parametrize("text", ["cifar10@", "cifar10@forty", "cifar10@40/2", "cifar10@40/fold", "@40"])
def test_an_unreadable_address_is_an_error(text):
    with pytest.raises(UserError, match="cannot read the data address"):
        parse_address(text, None, 0)


def test_a_number_of_validation_images_is_said_elsewhere():
    with pytest.raises(UserError, match="validation=5000"):
        parse_address("cifar10.1@40-5000", None, 0)
