"""Laws of the guarantee that every generator keeps, beyond the contract: nothing comes from the records but by a charge."""

import dataclasses
import json
import secrets

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import contracts, kind_of, make_frame, make_schema, quick
from sweeps import lone, sweep

from synthdp import Budget, Synthesizer
from synthdp.generators import dpgan
from synthdp.generators.adversarial.game import Game
from synthdp.schema.codec import Codec
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.replay import Recorder

BUDGET = Budget(1.0, 1e-5)


@pytest.fixture(params=sweep(contracts(), lone))
def name(request):
    return request.param


def test_an_outlier_or_a_rare_category_changes_no_shape(name):
    """Law 21: schema, codec, statement and the model's arrays (names, shapes, types) are byte-identical.

    Where the model's shape is itself a charged answer (`chooses`: which columns hang together), the second fit is given the first
    one's answers: the shape is a function of these. So is every question, with all its public numbers.
    """
    frame = make_frame(300)
    strange = frame.astype({"sex": object})
    strange.loc[300] = ["p-strange", 10**9, "never seen", "IX", 1e30, pd.Timestamp("1066-10-14"), True]
    found, recorder = [], None
    for table in (frame, strange):
        release = Synthesizer(quick(name), schema=make_schema(), budget=BUDGET).fit(table, seed=2, invalid="clamp")
        model = release.model
        if getattr(kind_of(name), "chooses", False):
            recorder = Recorder(of=recorder)
            data = Sensitive(table, make_schema(), Account(BUDGET), seed=2, recorder=recorder)
            model = quick(name).fit(data, make_schema(), BUDGET, seed=2)
            if recorder.of is not None:
                questions = [[each[0] for each in run.asked] for run in (recorder.of, recorder)]
                assert len(questions[0]) == len(questions[1]) > 2
                for one, other in zip(*questions, strict=True):
                    assert public(one) == public(other)
        shapes = {key: (value.shape, str(value.dtype)) for key, value in model.tensors().items()}
        said = [
            release.schema.to_dict(),
            release.statement.to_json(),
            Codec(release.schema).sizes,
            sorted(shapes.items()),
        ]
        found.append(json.dumps(said, sort_keys=True, default=str).encode())
    assert found[0] == found[1]


def public(value):
    """Everything that a question holds, to the last bit."""
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    if isinstance(value, tuple):
        return tuple(public(each) for each in value)
    if dataclasses.is_dataclass(value):
        held = {each.name: public(getattr(value, each.name)) for each in dataclasses.fields(value)}
        return type(value).__name__, held
    return value


def test_canaries_are_nowhere(name, tmp_path, capfd, caplog):
    """Law 22: 32 random bytes in every text cell of some records are in no release, log, warning or progress."""
    frame = make_frame(200).astype({"sex": object})
    canaries = [secrets.token_hex(32) for _ in range(12)]
    frame.loc[:11, "patient"] = canaries
    frame.loc[:11, "sex"] = canaries
    frame.loc[:11, "stage"] = canaries
    seen = []

    def progress(step, steps, figures):
        seen.append(repr((step, steps, dict(figures))))

    synthesizer = Synthesizer(quick(name), schema=make_schema(), budget=BUDGET)
    release = synthesizer.fit(frame, invalid="clamp", ledger=tmp_path / "ledger.jsonl", progress=progress)
    release.save(tmp_path / "release")
    release.sample(500).to_csv(tmp_path / "sample.csv")
    said = "".join([*capfd.readouterr(), caplog.text, *seen])
    content = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for canary in canaries:
        assert canary not in said
        assert canary.encode() not in content
        assert bytes.fromhex(canary) not in content


def test_the_fake_half_does_not_see_a_record():
    """Law 14: with the same weights, another record leaves the gradient of the fake half bit-identical."""
    grads = []
    for frame in (make_frame(80), make_frame(80).assign(age=99, ill=True)):
        settings = dpgan.DPGAN(steps=4, batch=32, hidden=(16,), start="none")
        data = Sensitive(frame, make_schema(), Account(BUDGET), seed=4)
        noise = data.commit(lambda z, settings=settings: settings.plan(make_schema(), z), BUDGET)
        schema = data.resolve()
        game = Game(settings, data, settings.terms(schema, noise), torch.Generator().manual_seed(1))
        fakes = game.player.fakes(64)
        game.d.recentre(game.player.blocks.one_hot(fakes), 1.0, game.d_average)
        game.fake_gradient(game.player.blocks.one_hot(fakes))
        grads.append([parameter.grad.numpy().copy() for parameter in game.d.parameters() if parameter.grad is not None])
    assert grads[0]
    for one, other in zip(*grads, strict=True):
        np.testing.assert_array_equal(one, other)
