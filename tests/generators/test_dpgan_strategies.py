"""Every clipping strategy and optimiser of the DP-GAN: replay, budget, the fake half, and a game that was stopped."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema
from gradient_sums import clipped_gradient_sum, per_unit_reference
from stopping import play, same_tensors
from sweeps import heavy, sweep

from synthdp import BadInput, Budget, Synthesizer, accounting
from synthdp.generators.adversarial.clipping_strategies import APPLIES, STRATEGIES, Clipper, rule
from synthdp.generators.dpgan import DPGAN
from synthdp.generators.parts.table_networks import Blocks, Discriminator, random
from synthdp.generators.parts.training_state import OPTIMIZERS
from synthdp.ledger.events import Gaussian, Sampled, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.noise.noise import Noise
from synthdp.seal.charging import Account
from synthdp.seal.clipping import Flat, layout
from synthdp.seal.door import Sensitive
from synthdp.seal.gradients import MARGIN, Gradients
from synthdp.seal.gradients.question import Counted
from synthdp.seal.replay import Recorder

QUICK = {"start": "label", "steps": 30, "batch": 64, "hidden": (32,)}
WAYS = {name: {"clipping": name} for name in STRATEGIES} | {
    "per_group by dimension": {"clipping": "per_group", "clip_shares": (2.0, 1.0), "clip_allocation": "dimension"},
    "per_group, bounds by dimension": {"clipping": "per_group", "clip_bounds": "dimension", "clip_noises": (1.0, 3.0)},
    "joint, alphas given": {"clipping": "joint", "clip_alphas": (0.3, 2.0)},
    "microbatches": {"microbatches": 7},
    "statistics": {"start": "none", "statistics": ("apart", "classes")},
    "adaptive with statistics": {"clipping": "adaptive", "statistics": ("apart",), "statistics_noise": 4.0},
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


@pytest.mark.parametrize("unit", [heavy(None), "patient"])
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
    asked = 30 + (WAYS[way].get("start") != "none")
    assert len(second.movements) == len(first.asked) == asked
    assert all(moved <= sensitivity * (1 + 1e-9) for moved, sensitivity in second.movements)
    assert max(moved for moved, _ in second.movements[1:]) > 0


@pytest.mark.heavy
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_budget_is_kept_and_nearly_used(way, epsilon):
    synthesizer = Synthesizer(settings(way), schema=make_schema(), budget=Budget(epsilon, 1e-5))
    statement = synthesizer.fit(make_frame(200), seed=3).statement
    assert 0.95 * epsilon <= statement.epsilon <= epsilon


@pytest.mark.parametrize("way", [*map(heavy, sorted(set(WAYS) - {"flat"})), "flat"], indirect=True)
def test_the_ledger_is_the_plan_whatever_the_records_are(way):
    schema, generator = make_schema(), settings(way)
    noise = accounting.calibrate(lambda z: generator.plan(schema, z), BUDGET)
    for rows in (0, 40):
        ledger, _ = run(generator, make_frame(rows), schema)
        assert ledger.entries() == scoped(generator.plan(schema, noise), relation="add_remove", unit="record")


def test_the_plan_holds_the_count(way):
    *_, steps = settings(way).plan(make_schema(), 2.0)
    assert isinstance(steps.event, Sampled)
    beside = {
        "adaptive": (2 * 5 * 2.0,),
        "adaptive, noise given": (18.0,),
        "statistics": (20.0, 20.0),
        "adaptive with statistics": (2 * 5 * 2.0, 8.0),
    }.get(way, ())
    assert steps.event.queries == (Gaussian(2.0), *map(Gaussian, beside))
    if way == "adaptive":
        *_, steps = settings(way, batch=300).plan(make_schema(), 2.0)
        assert steps.event.queries[1] == Gaussian(2 * 300 / 20)


@pytest.mark.parametrize("way", ["adaptive", "adaptive, noise given", "adaptive with statistics"])
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


@pytest.mark.heavy
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
    same_tensors(second.state(), kept)
    # From here on both see the same records and the same noise: those of the first game's seal.
    answers = Recorder()
    first.data._recorder = answers
    play(first, range(13, 27))
    second.data._recorder = Recorder(of=answers)
    play(second, range(13, 27))
    same_tensors(second.state(), first.state())
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
    same_tensors(kept, before)
    assert all(isinstance(value, np.ndarray) and value.dtype != object for value in kept.values())


@pytest.mark.heavy
@pytest.mark.parametrize("start", ["label", "columns", "none"])
def test_every_start_is_restored(start):
    generator = settings("flat", start=start)
    first = game(generator)
    first.start()
    second = game(generator, seed=77)
    second.restore(first.state())
    same_tensors(second.state(), first.state())
    assert (second.network.tables is None) == (start == "none")
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


def sizes_of(network):
    return {name: value.numel() for name, value in network.named_parameters()}


def alphas(generator, network):
    """Of each parameter: as given for its layer, or the root of the layer's size, of mean square 1."""
    sizes = np.array([sum(value.numel() for value in layer.parameters()) for layer in network.layers], float)
    by_layer = generator.clip_alphas or np.sqrt(sizes / sizes.mean())
    return {name: float(by_layer[int(name.split(".")[1])]) for name in sizes_of(network)}


def jointly(network, row, clip, scales):
    """One unit's gradient, clipped jointly (McMahan, Andrew et al. 2018, section 3), in float64."""
    found = torch.autograd.grad(network(row).sum(), list(network.parameters()))
    gradients = {name: value.double() for name, value in zip(scales, found, strict=True)}
    norm = math.sqrt(sum(float(value.square().sum()) / scales[name] ** 2 for name, value in gradients.items()))
    return {name: value * min(1.0, clip / norm) for name, value in gradients.items()}


@pytest.mark.parametrize("clip", sweep([0.1, 50.0], lambda clip: clip == 0.1))
def test_generated_rows_are_bounded_as_records_are(way, clip):
    """The weights of the fake half, one row at a time, against the reference of the real half (law 13)."""
    changes = {"hidden": (8, 6), "clip": clip}
    changes |= {name: (2.0, 1.0, 3.0) for name in ("clip_shares", "clip_noises", "clip_alphas") if name in WAYS[way]}
    generator = settings(way, **changes)
    network, rows = discriminator()
    clipper = Clipper(generator, network, 1.0, None, steps=generator.steps)
    weights = clipper.weights(network.layer_squares(rows))
    for place in range(len(rows)):
        row = rows[place : place + 1]
        if way.startswith("joint"):  # by hand: all layers over their alphas as one vector
            expected = jointly(network, row, clip * math.sqrt(3), alphas(generator, network))
        else:
            held = rule(generator, sizes_of(network))
            expected = per_unit_reference(network, lambda m, part: m(part), row, None, clip, held)
        gradients = torch.autograd.grad(network(row).sum(), list(network.parameters()))
        for (name, value), gradient in zip(expected.items(), gradients, strict=True):
            layer = 0 if len(weights) == 1 else int(name.split(".")[1])
            ours = gradient.double() * weights[layer][place].double()
            torch.testing.assert_close(ours, value, rtol=2 * MARGIN, atol=1e-7)


@pytest.mark.parametrize("way", ["per_layer", "flat", "automatic"])
def test_the_fake_gradient_is_that_of_its_loss(way):
    one = game(settings(way))
    one.start()
    fakes = one.network.blocks.one_hot(one.network.fakes(40))
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


class Exactly:
    """A sample of these rows, whose questions are answered without noise."""

    def __init__(self, rows):
        self.rows, self.questions = rows, []

    def ask(self, question):
        self.questions.append(question)
        return clipped_gradient_sum(question.module, question.loss, self.rows, None, question.clip, rule=question.rule)


@pytest.mark.parametrize("clip", [0.05, 50.0])
@pytest.mark.parametrize("given", [(), (0.2, 1.0, 5.0)])
def test_joint_clipping_is_that_of_all_layers_over_their_alphas(clip, given):
    generator = settings("joint", hidden=(8, 6), clip=clip, clip_alphas=given)
    network, rows = discriminator()
    network, rows = network.double(), rows.double()
    batch, clipper = Exactly(rows), Clipper(generator, network, 1.0, None, steps=generator.steps)
    found = clipper.gradient(batch, network, lambda m, part: m(part), 0, 9.0)
    scales = alphas(generator, network)
    each = [jointly(network, rows[place : place + 1], clip * math.sqrt(3), scales) for place in range(len(rows))]
    assert list(found) == list(sizes_of(network))
    for name, value in found.items():
        torch.testing.assert_close(value, sum(one[name] for one in each), rtol=2 * MARGIN, atol=1e-7)
    (question,) = batch.questions
    assert question.rule == Flat()
    assert question.sensitivity == pytest.approx(clip * math.sqrt(3))


def test_joint_noise_is_its_charge_times_the_clip_and_alpha():
    generator = settings("joint", hidden=(64, 64), clip=2.0, clip_alphas=(0.5, 1.0, 4.0))
    network = Discriminator(100, (64, 64), 5, random(0))
    clipper = Clipper(generator, network, 3.0, None, steps=generator.steps)

    class Nobody:
        def ask(self, question):
            zeros = {name: torch.zeros_like(value) for name, value in question.module.named_parameters()}
            flat = torch.cat([value.flatten() for value in zeros.values()])
            return question.noised(Gradients(flat, zeros), Noise(seed=1))

    found = clipper.gradient(Nobody(), network, lambda m, rows: m(rows), 0, 10.0)
    for layer, alpha in enumerate(generator.clip_alphas):
        values = torch.cat([found[f"layers.{layer}.{short}"].flatten() for short in ("weight", "bias")])
        # 4,160 draws in the smallest but one: the deviation's own is 1.1 % there
        if len(values) > 1000:
            assert float(values.std()) == pytest.approx(3.0 * 2.0 * math.sqrt(3) * alpha, rel=0.07)


def test_weights_used_twice_or_not_linearly_cannot_be_clipped_jointly():
    tied = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    again = torch.nn.Linear(4, 4)
    cases = {
        "is used twice": (tied, torch.nn.Sequential(again, again)),
        "PReLU": (torch.nn.Sequential(torch.nn.PReLU()),),
    }
    for said, modules in cases.items():
        for module in modules:
            with pytest.raises(BadInput, match=said):
                Clipper(settings("joint"), module, 1.0, None, steps=1)


def test_bounds_by_dimension_and_noises_given_are_those_of_the_paper():
    """S_g = S sqrt(d_g / d), and z_g in the proportions given with (sum z_g^-2)^(-1/2) = z."""
    held = rule(
        settings("flat", clipping="per_group", clip_bounds="dimension", clip_noises=(1.0, 3.0)), {"a.w": 9, "b.w": 7}
    )
    found = layout(held, {"a.w": 9, "b.w": 7})
    assert found.bounds == pytest.approx((3 / 4, math.sqrt(7) / 4))
    noises = [scale / bound for scale, bound in zip(found.scales, found.bounds, strict=True)]
    assert noises[1] / noises[0] == pytest.approx(3.0)
    assert sum(noise**-2 for noise in noises) == pytest.approx(1.0)


def test_the_mean_of_microbatches_is_over_their_number():
    """Without noise and without a clip that binds, a step follows the sum of the microbatches' means over their number."""
    frame, schema = make_frame(90), make_schema()
    generator = settings(
        "microbatches", clip=1e6, start="none", rate=1.0, batch=384, optimizer="sgd", discriminator_rate=0.5
    )
    data = Sensitive(frame, schema, Account(Budget(math.inf, 1e-5), Ledger()), seed=5)
    terms = generator.terms(schema, data.commit(lambda z: generator.plan(schema, z)))
    data.resolve()
    one = generator.game(data, terms, random(5))
    before = {name: value.detach().clone() for name, value in one.d.named_parameters()}
    one.fake_gradient = lambda _: [setattr(value, "grad", torch.zeros_like(value)) for value in one.d.parameters()]
    one.d.recentre = lambda *_: None
    one.discriminator_step(0)
    # every microbatch's mean gradient of -D is about that of all records: of the last bias it is -1 for each of them
    moved = {name: value.detach() - before[name] for name, value in one.d.named_parameters()}
    assert float(moved["layers.1.bias"]) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.heavy
def test_classes_asked_beside_gradients_are_what_rows_are_labelled_by():
    frame = make_frame(400)
    frame["stage"] = ["I"] * 300 + ["II"] * 80 + ["III"] * 20
    ways = {"asked": ("classes",), "not asked": ()}
    found = {}
    for name, asked in ways.items():
        generator = DPGAN(**(QUICK | {"start": "none"}), condition="stage", statistics=asked)
        _, model = run(generator, frame, make_schema(), budget=Budget(5.0, 1e-5))
        found[name] = model.sample(2000, seed=1)["stage"].value_counts(normalize=True)
    assert found["asked"]["I"] == pytest.approx(0.75, abs=0.1)
    assert found["not asked"]["I"] < 0.5


def test_how_far_records_are_told_apart_is_shown():
    shown = []
    generator = DPGAN(**{**QUICK, "steps": 50}, statistics=("apart",))
    synthesizer = Synthesizer(generator, schema=make_schema(), budget=Budget(math.inf, 1e-5))
    synthesizer.fit(make_frame(150), seed=2, progress=lambda *told: shown.append(told[-1]))
    assert len(shown) == 2
    assert all(0.2 < figures["told apart"] < 0.8 for figures in shown)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"statistics": ("classes",)}, "needs generator.start=none"),
        ({"statistics": ("apart", "apart")}, "twice"),
        ({"statistics": ("x",)}, "generator.statistics"),
        ({"statistics_noise": 3.0}, "generator.statistics_noise"),
        ({"microbatches": 3, "clipping": "adaptive"}, "generator.microbatches"),
        ({"clipping": "per_group", "clip_shares": (1, 2, 3), "clip_bounds": "dimension"}, "generator.clip_bounds"),
        (
            {"clipping": "per_group", "clip_noises": (1, 2, 3), "clip_allocation": "dimension"},
            "generator.clip_allocation",
        ),
        ({"clipping": "joint", "clip_alphas": (1.0,)}, "generator.clip_alphas"),
    ],
)
def test_settings_that_exclude_each_other_are_refused_by_name(bad, said):
    with pytest.raises(BadInput, match=said):
        DPGAN(**bad)


def test_classes_without_a_label_are_refused():
    schema = dataclasses.replace(make_schema(), targets=())
    with pytest.raises(BadInput, match="needs a label column"):
        DPGAN(start="none", statistics=("classes",)).validate(schema, BUDGET)


@pytest.mark.parametrize("first", [0.02, 20.0])
def test_an_adaptive_clip_finds_the_quantile(first):
    """Norms spread from 0.5 to 1.5, a quantile of 0.25: the clip goes to about 0.75, from far below and far above."""
    generator = settings("adaptive", clip=first, clip_quantile=0.25, clip_count_noise=20.0, hidden=(4,))
    network = torch.nn.Linear(1, 1, bias=False)
    sizes = torch.linspace(0.5, 1.5, 1000)[:, None]
    clipper = Clipper(generator, network, 1.0, 20.0, steps=generator.steps)
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


@pytest.mark.heavy
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
    words = dict.fromkeys(("clip_allocation", "clip_bounds"), "dimension")
    changed = {**dict.fromkeys(("clip_shares", "clip_noises", "clip_alphas"), (1.0, 2.0)), **words}.get(name, 0.37)
    others = OPTIMIZERS if name == "momentum" else STRATEGIES
    choice, reader = ("optimizer", "momentum") if name == "momentum" else ("clipping", APPLIES[name])
    for other in others:
        kept = {**QUICK, choice: other, name: changed}
        if other == reader:
            assert getattr(DPGAN(**kept), name) == changed
        else:
            with pytest.raises(BadInput, match=f"generator.{name}.*ignored"):
                DPGAN(**kept)


def test_an_adaptive_clip_without_an_expected_batch_asks_for_its_noise():
    generator = DPGAN(rate=0.1, clipping="adaptive")
    with pytest.raises(BadInput, match=r"generator\.clip_count_noise"):
        generator.validate(make_schema(units=None), BUDGET)
    assert (
        len(
            DPGAN(start="label", rate=0.1, clipping="adaptive", clip_count_noise=5.0).plan(make_schema(units=None), 1.0)
        )
        == 2
    )


def test_a_count_too_dear_for_the_budget_is_refused():
    generator = settings("adaptive", clip_count_noise=0.01)
    with pytest.raises(BadInput, match="fixed part of the plan"):
        run(generator, make_frame(40), make_schema())


@pytest.mark.heavy
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


@pytest.mark.heavy
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
