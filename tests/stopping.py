"""Fits that are stopped on their way and resumed, beside the same fit that was not (law 23)."""

from contextlib import contextmanager

import numpy as np
import pytest

from synthdp.seal.resume import Checkpoint


class Stop(Exception):
    pass


def files(folder):
    """Where a fit keeps what it goes on from."""
    folder.mkdir(exist_ok=True)
    return {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}


@contextmanager
def stopped_after_saving(number):
    """The fit in the block ends right after its n-th state was kept; the states that were."""
    plain, states = Checkpoint.save, []

    def save(self, facts, state):
        plain(self, facts, state)
        states.append(dict(state))
        if len(states) == number:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "save", save)
        with pytest.raises(Stop):
            yield states


def play(game, steps):
    """These steps of a DP-GAN's game, charged in one block."""
    with game.data.account.charged(game.settings.event(game.terms), len(steps)):
        for step in steps:
            game.discriminator_step(step)
            if (step + 1) % game.settings.generator_every == 0:
                game.generator_step(step // game.settings.generator_every)


@contextmanager
def stopped_before_step(network, number):
    """The fit in the block ends before this step of the generator's network, counted from 0."""
    plain = network.step

    def step(self, judged, at):
        if at == number:
            raise Stop
        plain(self, judged, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "step", step)
        with pytest.raises(Stop):
            yield


def same(one, other):
    """Two releases with the same ledger, and the same model to the last bit."""
    assert one.ledger.entries() == other.ledger.entries()
    same_tensors(one.model.tensors(), other.model.tensors())


def same_tensors(one, other):
    """To the last bit."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
