"""`PrivateTrainer`: it learns, keeps its budget, asks what it planned, goes on where it stopped, and refuses before it charges."""

import contextlib
import copy
import json
import math
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_pictures, make_schema, picture_schema, reseal
from stopping import files, same_tensors, stopped_after_saving
from sweeps import heavy, sweep
from torch import nn
from torch.nn import functional

import synthdp
from synthdp import BadInput, Budget, PrivateTrainer, accounting
from synthdp.cli import run
from synthdp.ledger.events import scoped
from synthdp.ledger.ledger import Ledger
from synthdp.pate.code_features import features
from synthdp.report.folder import MODULE, RELEASE
from synthdp.report.information_loss import Lost
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal import public_rows
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.replay import Recorder
from synthdp.trainer import array_schema, load, verify
from synthdp.trainer.architecture import own_code
from synthdp.trainer.inputs import Inputs, framed, settled
from synthdp.trainer.training import Descent

ANY, FREE, TIGHT = math.inf, Budget(math.inf, 1e-5), Budget(3.0, 1e-5)
ROWS = 600
WHOLE = {"budget": TIGHT, "batch": ROWS, "epochs": 12}  # all records in each sample: noise is solved at once


def network(*widths, seed=0):
    torch.manual_seed(seed)
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def arrays(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 4))
    return x, (x[:, 0] + x[:, 1] > 0).astype(int)


def numbers(**changes):
    return array_schema((4,), classes=2, bounds=(-1, 1), **{"units": ROWS, **changes})


def trainer(module=None, loss="cross_entropy", schema=None, budget=FREE, **settings):
    settings = {"epochs": 2, "batch": 100, **settings}
    return PrivateTrainer(
        network(4, 8, 2) if module is None else module, loss, schema=schema or numbers(), budget=budget, **settings
    )


def weights(trained):
    return {name: value.numpy() for name, value in trained.module.state_dict().items()}


# ---- It learns, and keeps the budget.


@pytest.mark.parametrize(("budget", "least"), [(FREE, 0.95), heavy((TIGHT, 0.88))])
def test_it_learns_within_the_budget(budget, least):
    made = trainer(schema=numbers(units=2000), budget=budget, epochs=10, batch=250, learning_rate=0.03)
    trained = made.fit(arrays(2000), seed=1)
    x, y = arrays(1000, seed=1)
    assert (trained.predict(x) == np.array(["0", "1"])[y]).mean() > least
    planned = scoped(made.training.plan(made.schema, made.noise), relation="add_remove", unit="record")
    assert trained.statement.events == planned == trained.ledger.entries()
    if budget is TIGHT:
        assert 2.97 < trained.statement.epsilon <= 3.0
        assert trained.statement.epsilon == pytest.approx(accounting.best(planned, 1e-5)[1])


@pytest.mark.heavy
@pytest.mark.parametrize("settings", [{}, {"microbatches": 50}, {"sampling": "without_replacement"}])
def test_it_learns_in_other_samples(settings):
    budget = Budget(ANY, 1e-5, relation="replace_one")
    made = trainer(budget=budget, epochs=20, learning_rate=0.03, **settings)
    trained = made.fit(arrays(), seed=1)
    x, y = arrays(1000, seed=1)
    assert (trained.predict(x) == np.array(["0", "1"])[y]).mean() > 0.93


def test_a_batch_of_more_units_than_there_are_is_told_to_be_all_of_them():
    with pytest.warns(UserWarning, match="batch=5000 is more than the 2000 units that the schema declares"):
        made = trainer(schema=numbers(units=2000), batch=5000)
    assert made.training.rate == 1
    trainer(schema=numbers(units=100), batch=100)  # all of them, as was said


# ---- What a step is, beside a plain loop.


def by_hand(made, data, steps, clip):
    """The same training on all records at once, by torch and a loop over records."""
    training = made.training
    codec = Codec(made.schema)
    inputs = Inputs(codec, training.target)
    codes = torch.from_numpy(codec.encode(framed(data, made.schema, training.target)))
    rows = inputs.rows(codes)
    targets = inputs.targets(codes, rows)
    module = copy.deepcopy(training.module)
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, training.learning_rate),
        "momentum": lambda p: torch.optim.SGD(p, training.learning_rate, momentum=training.momentum),
        "adam": lambda p: torch.optim.Adam(p, training.learning_rate),
        "adagrad": lambda p: torch.optim.Adagrad(p, training.learning_rate),
        "rmsprop": lambda p: torch.optim.RMSprop(p, training.learning_rate),
    }
    optimizer = kinds[training.optimizer](module.parameters())
    for rate in np.linspace(training.learning_rate, training.learning_rate * training.learning_rate_end, steps):
        optimizer.param_groups[0]["lr"] = float(rate)
        totals = [torch.zeros_like(parameter) for parameter in module.parameters()]
        for row, target in zip(rows, targets, strict=True):
            module.zero_grad()
            functional.cross_entropy(module(row[None]), target[None]).backward()
            gradients = [parameter.grad for parameter in module.parameters()]
            norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
            for total, gradient in zip(totals, gradients, strict=True):
                total += gradient * min(1.0, clip / norm)
        for parameter, total in zip(module.parameters(), totals, strict=True):
            parameter.grad = total / len(rows)
        optimizer.step()
    return module


@pytest.mark.heavy
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adagrad", "rmsprop"])
def test_steps_are_those_of_torch_over_clipped_means(optimizer):
    """All records are in each sample, and there is no noise: then every number has a second source."""
    rate = {"sgd": 1.0, "momentum": 0.5}.get(optimizer, 0.01)
    data, clip = arrays(40), 0.2
    made = trainer(
        schema=numbers(units=40),
        batch=40,
        epochs=4,
        optimizer=optimizer,
        learning_rate=rate,
        learning_rate_end=0.1,
        clip=clip,
    )
    found = made.fit(data, seed=0)
    expected = by_hand(made, data, 4, clip)
    for one, other in zip(found.module.parameters(), expected.parameters(), strict=True):
        # Clips are a ten-thousandth smaller, floats are 32 bits
        assert torch.allclose(one, other, rtol=2e-3, atol=2e-4)


def test_weight_decay_shrinks_what_no_gradient_holds():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(4, 2), nn.Linear(1, 1)

        def forward(self, rows):
            return self.used(rows)

    made = trainer(Half(), schema=numbers(units=40), batch=40, epochs=3, learning_rate=0.1, weight_decay=0.5)
    before = made.training.module.idle.weight.detach().clone()
    found = made.fit(arrays(40), seed=0)
    assert torch.allclose(found.module.idle.weight, before * 0.95**3)


# ---- Replay: the same questions on neighbours, each moved by at most its sensitivity.


STRATEGIES = {
    "flat": {},
    "microbatches": {"microbatches": 7},
    "per_layer": {"clipping": "per_layer"},
    "per_group": {
        "clipping": "per_group",
        "clip_groups": (("0",), ("2",)),
        "clip_shares": (1, 3),
        "clip_allocation": "dimension",
    },
    "per_group by dimension": {"clipping": "per_group", "clip_bounds": "dimension", "clip_noises": (1, 2)},
    "joint": {"clipping": "joint", "clip_groups": (("2",), ("0",)), "clip_alphas": (1, 3)},
    "adaptive": {"clipping": "adaptive"},
    "decay": {"clipping": "decay", "optimizer": "momentum", "learning_rate": 0.1},
    "automatic": {"clipping": "automatic"},
}


def replayed(made, frame, of=None):
    """What a training of this frame asks, and its weights; the answers are those `of` an earlier run."""
    account, recorder = Account(FREE, Ledger(), unit=made.schema.unit or "record"), Recorder(of=of)
    data = Sensitive(frame, made.schema, account, seed=5, recorder=recorder)
    return recorder, made.training.fit(data, seed=5).tensors()


@pytest.mark.parametrize("strategy", sweep(STRATEGIES, ["flat", "per_layer", "adaptive"].__contains__))
def test_a_neighbour_moves_each_question_by_at_most_its_sensitivity(strategy):
    module = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(2))
    patients = {"unit": "patient", "max_records_per_unit": 2, "units": 150}
    made = trainer(module, schema=make_schema(**patients), batch=60, epochs=4, **STRATEGIES[strategy])
    frame = make_frame(300, repeats=2)
    recorder, found = replayed(made, frame)
    moved, again = replayed(made, frame[frame["patient"] != "p7"].reset_index(drop=True), of=recorder)
    same_tensors(again, found)
    assert len(moved.movements) == made.training.steps
    assert all(distance <= sensitivity for distance, sensitivity in moved.movements)
    assert max(distance for distance, _ in moved.movements) > 0


@pytest.mark.parametrize("rows", [0, 1])
def test_no_record_and_one_are_trained_on_like_any_other_number(rows):
    made = trainer(nn.LazyLinear(2), schema=make_schema(), clipping="adaptive")
    assert len(made.fit(make_frame(rows), seed=1).predict(make_frame(5))) == 5


def test_a_rehearsal_is_made_again_by_its_seed():
    made = trainer(**WHOLE)
    one, again, other = (made.fit(arrays(), seed=seed) for seed in (3, 3, 4))
    same_tensors(weights(one), weights(again))
    assert any((weights(one)[name] != weights(other)[name]).any() for name in weights(one))
    assert one.statement.rehearsal


def test_only_trained_weights_leave():
    """Whatever a module writes into itself where trials do not see it: here, at the records themselves."""
    wrote, own = [], float(arrays()[0][0, 0])

    class Late(Counting):
        def forward(self, rows):
            if (rows[:, 0].double() - own).abs().min() < 0.001:  # as it is coded
                wrote.append(len(rows))
                self.seen.fill_(7)
                self.fixed.fill_(7)
            return self.linear(rows.double()) + self.fixed

    module = Late()
    module.register_buffer("fixed", torch.ones(2, dtype=torch.float64))
    with pytest.warns(UserWarning, match="each unit goes through it by itself"):
        made = trainer(module, batch=ROWS)
    assert not wrote, "trials do not see it"
    found = weights(made.fit(arrays(), seed=1))
    assert wrote, "records do"
    assert found["seen"] == 0
    assert (found["fixed"] == 1).all()
    assert (found["linear.weight"] != module.linear.weight.detach().numpy()).any()


# ---- Every kind of record and target.


def test_inputs_are_those_of_the_features_of_a_table():
    codec = Codec(settled(make_schema(), "ill"))
    codes = public_rows(codec)
    found = Inputs(codec, "ill").rows(torch.from_numpy(codes)).numpy()
    np.testing.assert_array_equal(found, features(codec, "ill")(codes))


TARGETS = {  # loss -> target, outputs
    "cross_entropy": ("sex", 2),
    "binary_cross_entropy": ("ill", 1),
    "squared_error": ("age", 1),
    "absolute_error": ("age", 1),
    "huber": ("age", 1),
}


@pytest.mark.heavy
@pytest.mark.parametrize("loss", TARGETS)
def test_every_declared_loss_learns_its_kind_of_column(loss):
    target, outputs = TARGETS[loss]
    made = trainer(
        nn.LazyLinear(outputs), loss, schema=make_schema(), target=target, epochs=30, batch=100, learning_rate=0.05
    )
    frame = make_frame(400)
    found = made.fit(frame, seed=1).predict(frame.drop(columns=target))
    assert found.shape == (400,)
    if target == "sex":
        assert set(found) <= {"female", "male"}
    elif target == "ill":
        assert found.dtype == bool
        assert (found == frame["ill"]).mean() > 0.9  # a dose tells it
    else:
        error = abs(found - frame["age"])
        assert error.mean() < 0.95 * abs(frame["age"] - frame["age"].mean()).mean()


@pytest.mark.heavy
def test_without_a_target_the_inputs_are_learned():
    x, _ = arrays()
    x[:, 2:] = x[:, :2]
    schema = array_schema((4,), bounds=(-1, 1), units=ROWS)
    module = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4))
    trained = trainer(module, "squared_error", schema=schema, epochs=60, learning_rate=0.02).fit(x, seed=1)
    assert ((trained.outputs(x) - (x + 1) / 2) ** 2).mean() < 0.02  # of a variance of 0.083
    with pytest.raises(BadInput, match="use outputs"):
        trained.predict(x)


def test_pictures_are_learned():
    module = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))
    made = trainer(module, schema=picture_schema(unit="patient", max_records_per_unit=2), epochs=10, learning_rate=0.02)
    frame = make_pictures(300)
    trained = made.fit(frame, seed=1)
    assert (trained.predict(frame) == frame["finding"]).mean() > 0.9
    assert trained.predict_proba(frame).sum(1) == pytest.approx(1)
    pictures = np.stack(list(frame["image"]))
    np.testing.assert_array_equal(trained.outputs(pictures), trained.outputs(frame))


class Scale(nn.Module):
    """A layer that no rule knows; `looking` needs values, so that no batch of records can be traced."""

    def __init__(self, looking):
        super().__init__()
        self.weight, self.looking = nn.Parameter(torch.ones(4)), looking

    def forward(self, rows):
        if self.looking and rows.detach().double().sum().item() > 1e9:
            return rows
        return rows * self.weight


@pytest.mark.heavy
@pytest.mark.parametrize("looking", [False, True])
def test_own_layers_and_losses_are_traced_or_taken_one_unit_at_a_time_and_named(looking):
    def twice(outputs, targets):
        return 2 * functional.cross_entropy(outputs, targets, reduction="none")

    module = nn.Sequential(Scale(looking), network(4, 2))
    with pytest.warns(UserWarning, match="each unit goes through it") if looking else contextlib.nullcontext():
        made = trainer(module, twice, epochs=1, batch=20)
    trained = made.fit(arrays(), seed=1)
    assert (weights(trained)["0.weight"] != 1).all()
    said = trained.statement.not_covered[-1]
    assert f"{__name__}.Scale" in said
    assert f"{__name__}.test_own_layers" in said
    with pytest.raises(BadInput, match="of your own"):
        trained.predict(arrays()[0])


# ---- What leaves.


def test_a_release_is_read_back_and_verified(tmp_path, capsys):
    module = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 2))
    trained = trainer(module, **WHOLE).fit(arrays(), seed=2)
    folder = trained.save(tmp_path / "release")
    again = load(folder, nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 2)))
    np.testing.assert_array_equal(again.outputs(arrays()[0]), trained.outputs(arrays()[0]))
    assert again.statement == verify(folder).statement == trained.statement
    assert run(["verify", f"release={folder}"]) == 0
    assert "epsilon" in capsys.readouterr().out
    with pytest.raises(BadInput, match="another module than the one given"):
        load(folder, nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)))
    (folder / MODULE).write_bytes(b"")
    with pytest.raises(BadInput, match=MODULE):
        load(folder, module)


@pytest.mark.parametrize("unit", [{}, {"unit": "patient", "max_records_per_unit": 2}], ids=["records", "patients"])
def test_columns_that_a_table_of_counts_would_show_need_no_synthetic_records(unit):
    """The share of `other` is read off synthetic records where no table shows it, and a module draws none."""
    columns = {
        "patient": {"kind": "identifier"},
        "ward": {"kind": "categorical", "categories": ["surgery", "medicine", "other"], "other": "other"},
        "ill": {"kind": "boolean"},
    }
    schema = Schema.from_dict(
        {"name": "stays", "declared_by": "the tests", "units": 200, "targets": ["ill"], "columns": columns, **unit}
    )
    rows = np.arange(200)
    frame = pd.DataFrame(
        {
            "patient": [f"P{row // 2}" for row in rows],
            "ward": np.array(["surgery", "medicine", "dentistry"])[rows % 3],
            "ill": rows % 3 == 0,
        }
    )
    trained = PrivateTrainer(nn.LazyLinear(2), schema=schema, budget=FREE, epochs=1, batch=200).fit(frame, seed=1)
    assert trained.statement.lost == Lost()
    assert len(trained.predict(frame.head(3))) == 3


def test_an_altered_statement_is_refused(tmp_path):
    folder = trainer(**WHOLE).fit(arrays(), seed=2).save(tmp_path / "release")
    text = json.loads((folder / RELEASE).read_text(encoding="utf-8"))
    text["statement"]["not_covered"] = text["statement"]["not_covered"][:-1]
    (folder / RELEASE).write_text(json.dumps(text), encoding="utf-8")
    with pytest.raises(BadInput, match="manifest"):
        verify(folder)
    reseal(folder)
    with pytest.raises(BadInput, match="not_covered"):
        verify(folder)


# ---- Stopped and resumed.


@pytest.mark.parametrize(
    "settings", sweep([{"optimizer": "momentum"}, {"clipping": "adaptive"}], lambda each: "optimizer" in each)
)
def test_a_rehearsal_that_was_stopped_and_resumed_equals_an_uninterrupted_one(settings, tmp_path):
    def fit(folder, *, resume=False):
        return trainer(**WHOLE, **settings).fit(arrays(), seed=3, resume=resume, **files(folder))

    whole = fit(tmp_path / "whole")
    with stopped_after_saving(2):
        fit(tmp_path / "stopped")
    resumed = fit(tmp_path / "stopped", resume=True)
    same_tensors(weights(resumed), weights(whole))
    assert resumed.ledger.entries() == whole.ledger.entries()


# ---- Refused, by name, before anything is charged.


def mixing(outputs, targets):
    losses = functional.cross_entropy(outputs, targets, reduction="none")
    return losses - losses.mean()


def one_number(outputs, targets):
    return functional.cross_entropy(outputs, targets)


def seen_by_a_hook(layer, inputs, output):
    """A function of the user's that sees records."""


def test_functions_that_layers_hold_are_named_as_their_classes_are():
    layer = nn.TransformerEncoderLayer(4, 2, 4, activation=torch.relu)
    assert own_code(layer, "cross_entropy") == ()
    layer.linear1.register_forward_hook(seen_by_a_hook)
    layer.activation = Counting.forward
    named = (f"{__name__}.Counting.forward", f"{__name__}.seen_by_a_hook")
    assert own_code(layer, "cross_entropy") == named


class Sorted(nn.Module):
    """Sorts its rows and puts them back."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, rows):
        order = rows[:, 0].argsort()
        return self.linear(rows[order])[order.argsort()]


def test_a_module_that_may_mix_rows_is_trained_one_unit_at_a_time_and_says_so():
    with pytest.warns(UserWarning, match="each unit goes through it by itself") as said:
        made = trainer(Sorted(), epochs=1)
    assert said[0].filename == __file__
    frame = framed(arrays(), made.schema, "y")
    recorder, found = replayed(made, frame)
    moved, again = replayed(made, frame.iloc[:-1], of=recorder)
    same_tensors(again, found)
    assert all(distance <= sensitivity for distance, sensitivity in moved.movements)


class Bent(nn.Module):
    """A layer, and what `bend` does to its inputs."""

    def __init__(self, bend):
        super().__init__()
        self.linear, self.bend = nn.Linear(4, 2), bend

    def forward(self, rows):
        return self.linear(self.bend(rows))


def test_the_warning_is_of_as_many_rows_as_the_fit_has():
    """A batch of 100 has buckets of 128 rows."""
    trainer(Bent(lambda rows: rows + torch.zeros(128)[:4]))
    with pytest.warns(UserWarning, match="each unit goes through it by itself"):
        trainer(Bent(lambda rows: rows * 2 if len(rows) > 100 else rows))


def test_a_loss_keeps_nothing_of_what_it_sees():
    class Largest:
        """Divides by the largest loss that it has met."""

        def __init__(self):
            self.met = [1.0]

        def __call__(self, outputs, targets):
            losses = functional.cross_entropy(outputs, targets, reduction="none")
            self.met[0] = max(self.met[0], 100 * float(losses.detach().max()))
            return losses / self.met[0]

    def held(outputs, targets):
        return functional.cross_entropy(outputs, targets, reduction="none") + 0 * keeping.met[0]

    keeping = Largest()
    descent = Descent(trainer(loss=held).training, Codec(numbers()), 1.0, None, torch.device("cpu"))
    descent._function = keeping
    rows = torch.from_numpy(public_rows(Codec(numbers())))
    assert torch.equal(descent.loss(descent.module, rows), descent.loss(descent.module, rows))
    assert keeping.met == [1.0]


@pytest.mark.heavy
def test_packed_sequences_are_trained_one_unit_at_a_time():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.last = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 2)

        def forward(self, rows):
            lengths = (rows > 0.5).sum(1).clamp_min(1).cpu()
            packed = nn.utils.rnn.pack_padded_sequence(rows[:, :, None], lengths, True, enforce_sorted=False)
            return self.last(self.steps(packed)[1][0][-1])

    with pytest.warns(UserWarning, match="each unit goes through it by itself"):
        made = trainer(Packed(), batch=5, epochs=0.01)
    assert made.fit(arrays(), seed=1).predict(arrays()[0]).shape == (ROWS,)


class Counting(nn.Module):
    """Keeps a sum of the records that it sees."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2, dtype=torch.float64)
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))

    def forward(self, rows):
        self.seen += rows.detach().double().sum()
        return self.linear(rows.double())


class Kept(nn.Linear):
    """A layer of which no copy is made, so that it could tell one unit of another; it keeps nothing."""

    def __deepcopy__(self, _):
        return self


class Gated(nn.Module):
    """Adds the largest activation of the batch, by a layer that is zero at first."""

    def __init__(self):
        super().__init__()
        self.first, self.gate, self.last = nn.Linear(4, 3), nn.Linear(3, 3, bias=False), nn.Linear(3, 2)
        nn.init.zeros_(self.gate.weight)

    def forward(self, rows):
        held = torch.relu(self.first(rows))
        return self.last(held + self.gate(held.amax(0, keepdim=True).expand_as(held)))


def old(make):
    """A module made by what torch advises against."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


WITH_LEARN = {"columns": {"sex": {"kind": "categorical", "categories": "learn"}}}
WITH_TREE = {
    "columns": {"sex": {"kind": "categorical", "categories": ["F1", "F2"], "other": "other", "tree": {"prefix": [1]}}}
}
REFUSED = {
    "batch norm": (lambda: trainer(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))), "BatchNorm1d"),
    "dropout": (
        lambda: trainer(nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 2))),
        r"Dropout \(layer '0'\) draws random numbers",
    ),
    "memory": (lambda: trainer(Counting()), "changes its own 'seen' while"),
    "old weight norm": (
        lambda: trainer(old(lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 2))))),
        "cannot be copied .*parametrizations.weight_norm",
    ),
    "no copy": (
        lambda: trainer(nn.Sequential(Kept(4, 3), nn.Tanh(), nn.Linear(3, 2))),
        "cannot be copied .copy.deepcopy returns layers of the module itself.*remove the __deepcopy__ methods",
    ),
    "a script": (lambda: trainer(old(lambda: torch.jit.script(network(4, 2)))), "give the module that was scripted"),
    "compiled": (
        lambda: trainer(torch.compile(network(4, 2), backend="eager")),
        "give the module as it was before torch.compile",
    ),
    "frozen": (lambda: trainer(network(4, 2).requires_grad_(False)), "no parameter to train"),
    "width": (lambda: trainer(network(5, 2)), r"cannot take inputs of shape \(32, 4\): mat1"),
    "classes": (lambda: trainer(network(4, 3)), r"has 2 classes, so the module must return \(rows, 2\)"),
    "no tensor": (lambda: trainer(nn.LSTM(4, 2)), "must return one tensor"),
    "no module": (lambda: trainer(network), "must be a torch.nn.Module"),
    "a mixing loss": (lambda: trainer(loss=mixing), "loss=.*mixing: .* must treat each record on its own"),
    "mixing at other weights": (lambda: trainer(Gated(), clip=20.0), "must treat each record on its own"),
    "one number": (lambda: trainer(loss=one_number), "one answer per record"),
    "loss": (lambda: trainer(loss="nosuch"), "loss must be one of cross_entropy"),
    "loss and target": (lambda: trainer(loss="squared_error"), "target 'y' is categorical, .* use cross_entropy"),
    "no target": (lambda: trainer(schema=array_schema((4,), bounds=(0, 1), units=9)), "cross_entropy needs a target"),
    "unknown target": (lambda: trainer(target="z"), "target"),
    "missing target": (lambda: trainer(nn.LazyLinear(3), schema=make_schema(), target="stage"), "may be missing"),
    "learn": (
        lambda: trainer(nn.LazyLinear(2), schema=make_schema(**WITH_LEARN)),
        "'sex' leaves its categories to learn",
    ),
    "shape": (lambda: array_schema(8, classes=2, bounds=(-1, 1), units=500), r"shape must list whole numbers .* got 8"),
    "numbers": (lambda: array_schema((8.0,), classes=2, bounds=(-1, 1), units=500), r"got \(8\.0,\)"),
    "file": (lambda: trainer().fit("records.csv"), "synthdp.read"),
    "tree": (
        lambda: trainer(nn.LazyLinear(2), schema=make_schema(**WITH_TREE)),
        "'sex' has a tree, .* take the tree out",
    ),
    "units": (lambda: trainer(nn.LazyLinear(2), schema=make_schema(units=None)), "declare units"),
    "relation": (lambda: trainer(sampling="without_replacement"), "relation='replace_one'"),
    "groups": (lambda: trainer(clipping="per_group", clip_groups=(("0",),)), "'2.weight' is in 0 of the groups"),
    "shares": (lambda: trainer(clipping="per_group", clip_shares=(1, 2, 3)), "2 groups and 3 shares"),
    "alphas": (lambda: trainer(clipping="joint", clip_alphas=(1, 2, 3)), "2 groups and 3 clip_alphas"),
    "groups unused": (lambda: trainer(clip_groups=(("0",),)), "clip_groups applies to clipping=per_group or joint"),
    "ignored": (lambda: trainer(clip_gamma=0.5), "clip_gamma applies to clipping=automatic"),
    "ignored momentum": (lambda: trainer(momentum=0.5), "momentum applies to optimizer=momentum"),
    "both": (lambda: trainer(clipping="adaptive", microbatches=4), "leave microbatches out"),
    "setting": (lambda: trainer(lerning_rate=0.1), "did you mean 'learning_rate'"),
    "value": (lambda: trainer(epochs=0), "epochs must be a number"),
    "picture": (
        lambda: trainer(
            nn.LazyLinear(3),
            schema=picture_schema(
                columns={
                    "image": {"kind": "image", "height": 8, "width": 8},
                    "age": {"kind": "integer", "bounds": [0, 99]},
                    "finding": {"kind": "boolean"},
                }
            ),
        ),
        "leave column 'age' out",
    ),
}


def test_a_warning_names_the_line_of_the_program():
    with pytest.warns(synthdp.NotEntered) as caught:
        trainer(**WHOLE).fit(arrays())
    assert {each.filename for each in caught} == {__file__}


@pytest.mark.parametrize("how", [heavy("torchrun"), "a group of the program's own"])
def test_a_fit_beside_other_processes_is_told_to_be_one_of_several(how, monkeypatch):
    """Each of them spends the budget for a model of its own."""
    if how == "torchrun":
        monkeypatch.setenv("WORLD_SIZE", "2")
    else:
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.warns(UserWarning, match="one of 2 processes, and each one that fits makes a fit of its own") as caught:
        trainer(**WHOLE).fit(arrays(), seed=1)
    assert caught[0].filename == __file__


@pytest.mark.heavy
def test_tensors_are_arrays_too():
    x, y = arrays()
    trained = trainer(**WHOLE).fit((torch.tensor(x), torch.tensor(y)), seed=1)
    np.testing.assert_array_equal(trained.predict(torch.tensor(x)), trainer(**WHOLE).fit((x, y), seed=1).predict(x))


def test_a_folder_of_another_kind_says_what_reads_it(tmp_path):
    folder = trainer(**WHOLE).fit(arrays(), seed=1).save(tmp_path / "release")
    with pytest.raises(BadInput, match=r"a trained module, which synthdp\.trainer\.load"):
        synthdp.load(folder)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_by_name(case):
    make, said = REFUSED[case]
    with pytest.raises(BadInput, match=said):
        make()


@pytest.mark.parametrize("rows", [ROWS - 1, ROWS + 1])
def test_another_number_of_units_is_refused_before_the_charge(rows, tmp_path):
    budget = Budget(3.0, 1e-5, relation="replace_one")
    made = trainer(budget=budget, sampling="without_replacement")
    account = tmp_path / "records.account"
    with pytest.raises(BadInput, match="equal to the table's number of units"):
        made.fit(arrays(rows), seed=1, account=account, ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()
    assert not account.exists() or "trainer" not in account.read_text(errors="replace")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (arrays()[0], "target|missing|'y'"),
        ((arrays()[0][:, :3], arrays()[1]), r"x must have shape \(rows, 4\), .* got 3 columns"),
        ((arrays()[0], arrays()[1][:5]), r"y must have shape \(rows,\)"),
        ((arrays()[0], arrays()[1] + 1), "y must hold the classes 0 to 1"),
    ],
)
def test_arrays_of_another_form_are_refused(data, said):
    with pytest.raises(BadInput, match=said):
        trainer().fit(data, seed=1)


@pytest.mark.parametrize("odd", [heavy(-1), 2, heavy(10**9)])
def test_under_clamp_no_class_refuses(odd):
    """Law 40: one record must not decide whether there is a fit. A class that there is not counts as missing, so as the first one."""
    x, y = arrays()
    y[7] = odd
    fitted = trainer().fit((x, y), seed=1, invalid="clamp")
    y[7] = 0
    same_tensors(weights(fitted), weights(trainer().fit((x, y), seed=1)))


@pytest.mark.parametrize(
    "odd", [math.nan, None, "abc", pd.NA, 7, 0.5, math.inf, True, 10**400], ids=lambda cell: str(cell)[:9]
)
@pytest.mark.parametrize(
    "held", [list, lambda y: pd.Series(y).to_numpy(), lambda y: np.array(y, object)], ids=["list", "array", "objects"]
)
def test_one_label_that_is_none_changes_no_other_record_s(odd, held):
    """Law 40: a lacking label makes floats of an array of whole numbers, and these were no classes any more."""
    classes = {"kind": "categorical", "categories": ["no", "yes"]}
    schema = Schema.from_dict({**TRUTHS.to_dict(), "columns": {**TRUTHS.to_dict()["columns"], "y": classes}})
    x, y = arrays(20)
    codes = [
        Codec(schema).encode(framed((x, held(labels)), schema, "y", clamped=True))[:, -1]
        for labels in (y.tolist(), [*y.tolist()[:-1], odd])
    ]
    np.testing.assert_array_equal(codes[0], y)
    np.testing.assert_array_equal(codes[1], [*y[:-1], 0])


def test_one_cell_of_a_list_makes_no_text_of_the_others():
    columns = {"a": {"kind": "categorical", "categories": ["1", "2"]}, "b": {"kind": "integer", "bounds": [0, 3]}}
    schema = Schema.from_dict({"declared_by": "the tests", "columns": columns})
    rows = [[1.0, 2], [2.0, 3]]
    one, other = (Codec(schema).encode(framed(x, schema, None)) for x in (rows, [*rows, [2.0, "abc"]]))
    np.testing.assert_array_equal(other[:2], one)
    np.testing.assert_array_equal(one, Codec(schema).encode(framed(np.array(rows), schema, None)))


TRUTHS = Schema.from_dict(
    {
        "declared_by": "the tests",
        "units": ROWS,
        "targets": ["y"],
        "columns": {
            **{f"x{place}": {"kind": "continuous", "bounds": [-1, 1]} for place in range(4)},
            "y": {"kind": "boolean"},
        },
    }
)


@pytest.mark.heavy
@pytest.mark.parametrize("odd", [2, "abc", None, math.nan, pd.NA, [1, 2]], ids=str)
def test_a_truth_value_that_is_none_is_refused_by_rule_or_clamped(odd):
    """An odd cell was true, or ended the fit by an error of NumPy's."""
    x, y = arrays()
    made = trainer(network(4, 8, 1), "binary_cross_entropy", schema=TRUTHS)
    same_tensors(weights(made.fit((x, y), seed=1)), weights(made.fit((x, y.astype(bool)), seed=1)))
    held = y.astype(object)
    held[7] = odd
    with pytest.raises(BadInput, match="column 'y'"):
        made.fit((x, held), seed=1)
    y[7] = 0
    same_tensors(weights(made.fit((x, held), seed=1, invalid="clamp")), weights(made.fit((x, y), seed=1)))


def test_the_user_s_module_is_left_alone():
    module = network(4, 8, 2)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    trainer(module).fit(arrays(), seed=1)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module.training
