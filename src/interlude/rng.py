"""Random numbers that are a function of a seed and a few words, so that no generator ever has to be saved."""

from hashlib import blake2b

import torch


def key(seed: int, *words: int | str) -> int:
    """A number below 2**63 mixed from the seed and the words; the same on every machine, in every process."""
    text = "\0".join(f"s{word}" if isinstance(word, str) else f"i{int(word)}" for word in (seed, *words))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, *words: int | str) -> torch.Generator:
    """A fresh generator on the CPU, seeded with `key(seed, *words)`."""
    return torch.Generator().manual_seed(key(seed, *words))


def seed(seed: int, step: int) -> None:
    """Seed what the network itself draws in this step, such as dropout."""
    number = key(seed, "step", step)
    # the generators directly: `torch.manual_seed` does the same and costs a hundred times more
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        for default in torch.cuda.default_generators:
            default.manual_seed(number)
