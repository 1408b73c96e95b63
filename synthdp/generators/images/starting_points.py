"""What a game on images buys before its first step: the answers of class Gaussians, the label's counts, or nothing."""

import torch

from synthdp.generators.images.image_player import ImagePlayer, Settings, starter
from synthdp.generators.parts.table_networks import nearest_distribution
from synthdp.ledger.events import Entry, Gaussian, Plan
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive

STARTS = ("gauss", "label", "none")


def plan(settings: Settings, schema: Schema, noise: float) -> Plan:
    """What `begin` asks, all of it together one Gaussian of this noise."""
    if settings.start == "gauss":
        return starter(settings).plan(schema, noise)
    return (Entry(Gaussian(noise)),) if settings.start == "label" else ()


def begin(data: Sensitive, settings: Settings, player: ImagePlayer, noise: float) -> None:
    """Ask, and let the player begin there."""
    if settings.start == "gauss":
        own = starter(settings)
        seed = int(torch.randint(2**62, (1,), generator=player.random))
        mixture = own.learn(data, own.noises(data.schema, noise), seed=seed)
        player.start(torch.from_numpy(mixture.labels).float(), mixture)
        return
    codec, label = data.codec, player.label
    if label is None:
        return
    (counts,) = data.marginals([(codec.names[label],)], noise)
    player.start(nearest_distribution(torch.from_numpy(counts)).float(), None)
