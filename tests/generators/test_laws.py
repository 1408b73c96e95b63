"""Law 14: what a discriminator learns from generated records depends on no real one."""

import numpy as np
import torch
from clinic import make_frame, make_schema

from synthdp import Budget
from synthdp.generators import dpgan
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive

BUDGET = Budget(1.0, 1e-5)


def test_the_fake_half_does_not_see_a_record():
    """Law 14: with the same weights, another record leaves the gradient of the fake half bit-identical."""
    grads = []
    for frame in (make_frame(80), make_frame(80).assign(age=99, ill=True)):
        settings = dpgan.DPGAN(steps=4, batch=32, hidden=(16,), start="none")
        data = Sensitive(frame, make_schema(), Account(BUDGET), seed=4)
        noise = data.commit(lambda z, settings=settings: settings.plan(make_schema(), z))
        schema = data.resolve()
        game = settings.game(data, settings.terms(schema, noise), torch.Generator().manual_seed(1))
        fakes = game.network.fakes(64)
        game.d.recentre(game.network.blocks.one_hot(fakes), 1.0, game.d_average)
        game.fake_gradient(game.network.blocks.one_hot(fakes))
        grads.append([parameter.grad.numpy().copy() for parameter in game.d.parameters() if parameter.grad is not None])
    assert grads[0]
    for one, other in zip(*grads, strict=True):
        np.testing.assert_array_equal(one, other)
