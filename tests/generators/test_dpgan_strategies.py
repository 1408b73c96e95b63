"""Every clipping strategy and optimiser of the DP-GAN: replay, budget, the fake half, and a game that was stopped."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema
from sweeps import sweep

from synthdp import BadInput, Budget, Synthesizer, accounting
from synthdp.generators.adversarial.clipping_strategies import APPLIES, STRATEGIES, Clipper, rule
from synthdp.generators.dpgan import DPGAN
from synthdp.generators.parts.table_networks import Blocks, Discriminator, random
from synthdp.generators.parts.training_state import OPTIMIZERS
from synthdp.ledger.events import Gaussian, Sampled, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.gradients import MARGIN, per_unit_reference
from synthdp.seal.gradients.question import Counted
from synthdp.seal.replay import Recorder

QUICK = {"steps": 30, "batch": 64, "hidden": (32,)}
WAYS = {name: {"clipping": name} for name in STRATEGIES} | {
    "per_group by dimension": {"clipping": "per_group", "clip_shares": (2.0, 1.0), "clip_allocation": "dimension"},
    "adaptive, noise given": {"clipping": "adaptive", "clip_count_noise": 9.0, "clip_quantile": 0.8, "clip": 0.1},
}
BUDGET = Budget(1.0, 1e-5)


def settings(way, **changes):
    return DPGAN(**(QUICK | WAYS[way] | changes))


def run(generator, frame, schema, recorder=None, budget=BUDGET):
    account = Account(budget, Ledger(), unit=schema.unit or "record")
    data = Sensitive(frame, schema, account, seed=5, recorder=recorder)
    return account.ledger, generator.fit(data, seed=5)


FEW = ("flat", "adaptive")  # `make test` takes: one clip of its own, and one that noisy answers set


@pytest.fixture(params=sweep(WAYS, FEW.__contains__))
def way(request):
    return request.param


@pytest.mark.parametrize("unit", [None, "patient"])
def test_replay(way, unit):
    """Law 12, for each strategy: same questions, bounded movement, and a model that is a function of the answers."""
    schema = make_schema(**({"unit": unit, "max_records_per_unit": 2} if unit else {}))
    whole = make_frame(60, repeats=3)
    extra = {"age": math.nan, "dose": math.inf, "sex": "never declared", "stage": None, "ill": None, "seen": pd.NaT}
    whole = pd.concat([whole, whole.iloc[-3:].assign(patient="p-new", **extra)], ignore_index=True)
    fewer = whole.iloc[:-3] if unit else whole.iloc[:-1]
    first = Recorder()
    ledger, model = run(settings(way), fewer, schema, first)
    second = Recorder(of=first)
    again, same = run(settings(way), whole, schema, second)
    assert again.entries() == ledger.entries()
    for one, other in zip(model.tensors().values(), same.tensors().values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(second.movements) == len(first.asked) == 31
    assert all(moved <= sensitivity * (1 + 1e-9) for moved, sensitivity in second.movements)
    assert max(moved for moved, _ in second.movements[1:]) > 0


@pytest.mark.heavy
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_budget_is_kept_and_nearly_used(way, epsilon):
    synthesizer = Synthesizer(settings(way), schema=make_schema(), budget=Budget(epsilon, 1e-5))
    statement = synthesizer.fit(make_frame(200), seed=3).statement
    assert 0.95 * epsilon <= statement.epsilon <= epsilon


def test_the_ledger_is_the_plan_whatever_the_records_are(way):
    schema, generator = make_schema(), settings(way)
    noise = accounting.calibrate(lambda z: generator.plan(schema, z), BUDGET)
    for rows in (0, 40):
        ledger, _ = run(generator, make_frame(rows), schema)
        assert ledger.entries() == scoped(generator.plan(schema, noise), relation="add_remove", unit="record")


def test_the_plan_holds_the_count(way):
    *_, steps = settings(way).plan(make_schema(), 2.0)
    assert isinstance(steps.event, Sampled)
    given = {"adaptive": 2 * 5 * 2.0, "adaptive, noise given": 18.0}.get(way)
    expected = (Gaussian(2.0),) if given is None else (Gaussian(2.0), Gaussian(given))
    assert steps.event.queries == expected
    if way == "adaptive":
        *_, steps = settings(way, batch=300).plan(make_schema(), 2.0)
        assert steps.event.queries[1] == Gaussian(2 * 300 / 20)


@pytest.mark.parametrize("way", ["adaptive", "adaptive, noise given"])
def test_the_tables_keep_their_share_beside_a_count(way):
    tables, steps = settings(way, tables=0.3).plan(make_schema(), 2.0)
    precision = sum(query.noise**-2 for query in steps.event.queries) * steps.event.rate**2 * steps.count
    assert tables.event.noise**-2 / (tables.event.noise**-2 + precision) == pytest.approx(0.3)


def game(generator, seed=5, rows=150):
    schema = make_schema()
    data = Sensitive(make_frame(rows), schema, Account(BUDGET, Ledger()), seed=seed)
    terms = generator.terms(schema, data.commit(lambda z: generator.plan(schema, z)))
    data.resolve()
    return generator.game(data, terms, random(seed))


def play(one, steps):
    for step in steps:
        one.discriminator_step(step)
        if (step + 1) % one.settings.generator_every == 0:
            one.generator_step(step // one.settings.generator_every)


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.parametrize(
    ("way", "optimizer"),
    sweep(
        [*((way, "adam") for way in WAYS), *(("adaptive", other) for other in OPTIMIZERS if other != "adam")],
        lambda case: case in (("flat", "adam"), ("adaptive", "adam")),
    ),
)
def test_a_restored_game_goes_on_bit_for_bit(way, optimizer):
    generator = settings(way, optimizer=optimizer, steps=40)
    first = game(generator)
    first.start()
    play(first, range(13))
    kept = {name: value.copy() for name, value in first.state().items()}
    second = game(dataclasses.replace(generator), seed=77)  # other weights, other draws: all of it is replaced
    second.restore(kept)
    same(second.state(), kept)
    # From here on both see the same records and the same noise: those of the first game's seal.
    answers = Recorder()
    first.data._recorder = answers
    play(first, range(13, 27))
    second.data._recorder = Recorder(of=answers)
    play(second, range(13, 27))
    same(second.state(), first.state())
    assert any(not np.array_equal(value, kept[name]) for name, value in first.state().items())
    ends = second.finish().network.state_dict()
    for name, value in first.finish().network.state_dict().items():
        assert torch.equal(value, ends[name])


def test_a_state_is_a_copy_of_plain_arrays():
    one = game(settings("adaptive"))
    one.start()
    kept = one.state()
    before = {name: value.copy() for name, value in kept.items()}
    play(one, range(6))
    same(kept, before)
    assert all(isinstance(value, np.ndarray) and value.dtype != object for value in kept.values())


@pytest.mark.parametrize("start", ["label", "columns", "none"])
def test_every_start_is_restored(start):
    generator = settings("flat", start=start)
    first = game(generator)
    first.start()
    second = game(generator, seed=77)
    second.restore(first.state())
    same(second.state(), first.state())
    assert (second.player.tables is None) == (start == "none")
    ends = second.finish().network.state_dict()
    for name, value in first.finish().network.state_dict().items():
        assert torch.equal(value, ends[name])


def discriminator():
    sizes = (3, 2, 5)
    network = Discriminator(sum(sizes), (8, 6), len(sizes), random(0))
    codes = torch.stack([torch.randint(size, (9,), generator=random(size)) for size in sizes], 1)
    rows = Blocks(sizes).one_hot(codes)
    network.recentre(rows, 1.0)
    return network, rows


@pytest.mark.parametrize("clip", sweep([0.1, 50.0], lambda clip: clip == 0.1))
def test_generated_rows_are_bounded_as_records_are(way, clip):
    """The weights of the fake half, one row at a time, against the reference of the real half (law 13)."""
    changes = {"hidden": (8, 6), "clip": clip}
    if WAYS[way].get("clip_shares"):
        changes["clip_shares"] = (2.0, 1.0, 3.0)
    generator = settings(way, **changes)
    network, rows = discriminator()
    clipper = Clipper(generator, network, 1.0, None)
    weights = clipper.weights(network.layer_squares(rows))
    for place in range(len(rows)):
        row = rows[place : place + 1]
        expected = per_unit_reference(network, lambda m, part: m(part), row, None, clip, rule(generator))
        gradients = torch.autograd.grad(network(row).sum(), list(network.parameters()))
        for (name, value), gradient in zip(expected.items(), gradients, strict=True):
            layer = 0 if len(weights) == 1 else int(name.split(".")[1])
            ours = gradient.double() * weights[layer][place].double()
            torch.testing.assert_close(ours, value, rtol=2 * MARGIN, atol=1e-7)


@pytest.mark.parametrize("way", ["per_layer", "flat", "automatic"])
def test_the_fake_gradient_is_that_of_its_loss(way):
    one = game(settings(way))
    one.start()
    fakes = one.player.blocks.one_hot(one.player.fakes(40))
    one.d.zero_grad()
    one.fake_gradient(fakes)
    found = [parameter.grad.clone() for parameter in one.d.parameters()]
    weights = one.clipper.weights(one.d.layer_squares(fakes))
    slope = (1 + one.settings.penalty * one.d(fakes).detach()).clamp(-5, 5)
    expected = [torch.zeros_like(parameter) for parameter in one.d.parameters()]
    for place in range(len(fakes)):
        gradients = torch.autograd.grad(one.d(fakes[place : place + 1]).sum(), list(one.d.parameters()))
        for target, gradient, number in zip(expected, gradients, range(len(gradients)), strict=True):
            weight = weights[0 if len(weights) == 1 else number // 2][place]
            target += weight * slope[place] * gradient / len(fakes)
    for one_gradient, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one_gradient, other, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("first", [0.02, 20.0])
def test_an_adaptive_clip_finds_the_quantile(first):
    """Norms spread from 0.5 to 1.5, a quantile of 0.25: the clip goes to about 0.75, from far below and far above."""
    generator = settings("adaptive", clip=first, clip_quantile=0.25, clip_count_noise=20.0, hidden=(4,))
    network = torch.nn.Linear(1, 1, bias=False)
    sizes = torch.linspace(0.5, 1.5, 1000)[:, None]
    clipper = Clipper(generator, network, 1.0, 20.0)
    draws = np.random.default_rng(0)

    class Everyone:
        def ask(self, question):
            assert isinstance(question, Counted)
            from synthdp.seal.gradients import sum_and_count

            gradient = question.gradient
            sums, count = sum_and_count(gradient.module, gradient.loss, sizes, None, gradient.clip)
            return sums, count + draws.normal(0, question.deviation)

    for step in range(150):
        clipper.gradient(Everyone(), network, lambda m, rows: m(rows).squeeze(1), step, 1000.0)
    assert clipper.clip == pytest.approx(0.75, rel=0.05)


def test_clips_move_as_their_strategy_says():
    asked = Recorder()
    run(settings("decay", clip=2.0), make_frame(80), make_schema(), asked)
    clips = [question.clip for question, _, _ in asked.asked[1:]]
    assert clips == pytest.approx([2.0 * 0.1 ** (step / 30) for step in range(30)])
    asked = Recorder()
    run(settings("adaptive"), make_frame(80), make_schema(), asked)
    clips = [question.gradient.clip for question, _, _ in asked.asked[1:]]
    assert clips[0] == 1.0
    for before, after, (_, _, (_, count)) in zip(clips, clips[1:], asked.asked[1:], strict=False):
        assert after == pytest.approx(before * math.exp(-0.2 * count / 64))


@pytest.mark.heavy
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimiser_fits(optimizer):
    synthesizer = Synthesizer(DPGAN(**QUICK, optimizer=optimizer), schema=make_schema(), budget=BUDGET)
    frame = synthesizer.fit(make_frame(100), seed=1).sample(20, seed=1)
    make_schema().validate(frame, "error")


@pytest.mark.parametrize("name", [*APPLIES, "momentum"])
def test_a_setting_that_the_choice_would_ignore_is_refused(name):
    changed = {"clip_shares": (1.0, 2.0), "clip_allocation": "dimension"}.get(name, 0.37)
    others = OPTIMIZERS if name == "momentum" else STRATEGIES
    choice, reader = ("optimizer", "momentum") if name == "momentum" else ("clipping", APPLIES[name])
    for other in others:
        kept = {**QUICK, choice: other, name: changed}
        if other == reader:
            assert getattr(DPGAN(**kept), name) == changed
        else:
            with pytest.raises(BadInput, match=f"generator.{name}.*ignored"):
                DPGAN(**kept)


@pytest.mark.parametrize(
    "bad",
    [
        {"clipping": "x"},
        {"clip": math.inf},
        {"clip_quantile": 1.0, "clipping": "adaptive"},
        {"clip_speed": 0.0, "clipping": "adaptive"},
        {"clip_count_noise": 0.0, "clipping": "adaptive"},
        {"clip_decay": 0.0, "clipping": "decay"},
        {"clip_gamma": -1.0, "clipping": "automatic"},
        {"clip_shares": (1.0,), "clipping": "per_group"},
        {"clip_shares": (1.0, 0.0, 1.0), "clipping": "per_group"},
        {"clip_allocation": "x", "clipping": "per_group"},
        {"optimizer": "x"},
        {"momentum": 1.0, "optimizer": "momentum"},
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(bad):
    with pytest.raises(BadInput, match=f"generator.{next(iter(bad))}"):
        DPGAN(**bad)


def test_an_adaptive_clip_without_an_expected_batch_asks_for_its_noise():
    generator = DPGAN(rate=0.1, clipping="adaptive")
    with pytest.raises(BadInput, match=r"generator\.clip_count_noise"):
        generator.validate(make_schema(units=None), BUDGET)
    assert len(DPGAN(rate=0.1, clipping="adaptive", clip_count_noise=5.0).plan(make_schema(units=None), 1.0)) == 2


def test_a_count_too_dear_for_the_budget_is_refused():
    generator = settings("adaptive", clip_count_noise=0.01)
    with pytest.raises(BadInput, match="fixed part of the plan"):
        run(generator, make_frame(40), make_schema())


@pytest.mark.parametrize("way", sweep(["flat", "adaptive"], lambda way: way == "adaptive"))
def test_a_stopped_fit_is_resumed(way, tmp_path):
    synthesizer = Synthesizer(settings(way, steps=50), schema=make_schema(), budget=BUDGET)
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.safetensors"}

    def stop(step, steps, figures):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synthesizer.fit(make_frame(150), seed=2, progress=stop, **files)
    assert files["checkpoint"].exists()
    release = synthesizer.fit(make_frame(150), seed=2, resume=True, **files)
    assert release.statement.epsilon <= BUDGET.epsilon
    make_schema().validate(release.sample(30, seed=1), "error")


def test_weights_of_a_wasserstein_discriminator_stay_within_their_bound():
    """Arjovsky et al. 2017, algorithm 1: clamped after every step."""
    free, held = (
        game(DPGAN(steps=6, batch=40, hidden=(8,), start="none", penalty=0.0, discriminator_rate=0.1, weight_clip=clip))
        for clip in (None, 0.05)
    )
    for one in (free, held):
        play(one, range(6))
    largest = [max(float(p.detach().abs().max()) for p in one.d.parameters()) for one in (free, held)]
    assert largest[0] > 0.1
    assert largest[1] == pytest.approx(0.05)
