"""What a user may say about the vectors of a frozen network."""

from dataclasses import dataclass

from interlude.options import Options, option


@dataclass(frozen=True)
class FeaturesConfig(Options):
    """In which views a frozen network is run on each image, once, and where its vectors are kept."""

    weak: int | None = option(
        None,
        "weak realisations, each applied to every image; None = as many as the budget allows",
        at_least=1,
    )
    strong: int | None = option(
        None,
        "strong realisations, each applied to every image; None = as many as the budget allows",
        at_least=1,
    )
    seed: int = option(0, "which realisations are drawn", at_least=0)
    budget: float = option(
        8.0, "minutes for the extraction, from which what is left at None here and input_size follow", above=0
    )
    cache: str | None = option(
        None, "folder of extracted vectors; default $INTERLUDE_CACHE or ~/.cache/interlude/features"
    )
