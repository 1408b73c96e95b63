"""`device=`: what is refused, what is the same everywhere, and whole fits on a device that is not the CPU (`elsewhere.py`)."""

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import contracts, kind_of, make_frame, make_pictures, make_schema, picture_schema, quick
from elsewhere import DEVICE, Away, Elsewhere, Mixed, elsewhere
from stopping import files, same
from sweeps import heavy, sweep

from synthdp import BadInput, Budget, Synthesizer
from synthdp.generators import kernel_teachers
from synthdp.generators.adversarial import pair_kernel, table_generator_network
from synthdp.generators.adversarial.pair_kernel import Interactions
from synthdp.generators.images import image_generator_network
from synthdp.generators.images.diffusion import Prior
from synthdp.generators.images.image_kernel_rounds import Coefficients
from synthdp.generators.marginals.product_mixture import Evidence
from synthdp.generators.parts import devices, table_networks
from synthdp.generators.parts.noisy_tables import Tables
from synthdp.ledger.ledger import Ledger
from synthdp.seal.callbacks import CallbackError
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.records import Records

BUDGET = Budget(epsilon=1.0, delta=1e-5)
CONTRACTS = {
    data: [name for name in contracts(data) if hasattr(kind_of(name), "device")] for data in ("table", "images")
}
EVERY = [(data, name) for data, names in CONTRACTS.items() for name in names]
SHORT = {  # on a stand-in every operation takes its time
    "dpgan": {"steps": 12},
    "dpgan_images": {"steps": 12},
    "dpgan_images:conv": {"steps": 5},
    "dpgan_images:mlp": {"steps": 5},
    "dpdm:none": {"steps": 6},
    "kernel_teachers": {"start": "label", "steps": 6, "queries": 40},
    "kernel_teachers_images": {"steps": 6, "queries": 40},
    "pategan": {"start": "label", "steps": 6, "queries": 40},
    "pategan_original": {"rounds": 1},
    "mixture": {"iterations": 10},
}
MORE = [  # paths that the contract's settings do not take
    ("table", "dpgan", {"clipping": "adaptive"}),
    ("table", "kernel_teachers", {"start": "none"}),
    ("table", "dpgan", {"clipping": "per_layer", "start": "none"}),
    ("table", "dpgan", {"start": "columns", "optimizer": "momentum"}),
    ("images", "dpgan_images:conv", {"start": "none", "steps": 2}),
]
# Where the CPU may wait for the device. Within a step: the seal's noise, which is made on the CPU of the sums (`added_flat`), and
# the count of adaptive clipping, noised there too; with start=gauss, dpdm asks how many records of each label there are.
STEPS = {"noise.py:added_flat", "bound.py:within", "diffusion.py:turned"}
SHOWN = {"training_state.py:loss", "dpmerf.py:_train"}  # when progress is shown
ROUNDS = {  # of questions to teachers, which are on the CPU or answer there
    "kernel_rounds.py:ask",
    "kernel_rounds.py:fakes",
    "image_kernel_rounds.py:fakes",
    "pair_kernel.py:weights_of",
    "pategan_original.py:step",
    "network_teachers.py:<lambda>",
    "network_teachers.py:_asked",
    "network_teachers.py:votes",
}
ENDS = {
    "training_state.py:<genexpr>",
    "table_generator_network.py:finish",
    "image_generator_network.py:finish",
    "dpdm.py:<genexpr>",
    "dpdm.py:finished",
    "dpmerf.py:fit",
}
BEGINNINGS = {"table_generator_network.py:features_of"}
CHECKS = {  # of a loss on made-up rows, once for each event
    "question.py:_losses",
    "question.py:_losses_elsewhere",
    "buckets.py:_tried",
    "buckets.py:<genexpr>",
}
MIXTURE = {
    "mixture.py:_show",
    "product_mixture.py:cells",
    "product_mixture.py:fit_once",
    "product_mixture.py:<listcomp>",
}
PLACES = {
    "dpgan": STEPS - {"diffusion.py:turned"} | CHECKS | SHOWN | ENDS | MIXTURE,
    "dpgan_images": STEPS - {"diffusion.py:turned"} | CHECKS | SHOWN | ENDS,
    "kernel_teachers": ROUNDS | SHOWN | ENDS | BEGINNINGS,
    "kernel_teachers_images": ROUNDS | SHOWN | ENDS | {"image_kernel_rounds.py:finish"},
    "pategan": ROUNDS | SHOWN | ENDS | BEGINNINGS | {"pategan.py:ask", "pategan.py:_public_rows"},
    "pategan_original": ROUNDS | SHOWN | ENDS,
    "dpmerf": SHOWN | ENDS,
    "dpdm": STEPS | CHECKS | ENDS,
    "mixture": MIXTURE,
}


def short(data, name, changes=None):
    return quick(name, data, **{**SHORT.get(name, {}), **(changes or {})})


def fitted(data, name, changes=None, **options):
    schema, frame = (make_schema(), make_frame(200)) if data == "table" else (picture_schema(), make_pictures(200))
    made = Synthesizer(short(data, name, changes), schema=schema, budget=BUDGET)
    return made.fit(frame, **{"seed": 3, **options})


def check_elsewhere(monkeypatch, data, name, changes=None):
    """A fit there is the one here, and waits where it has to."""
    here = fitted(data, name, changes)
    with elsewhere(monkeypatch) as mode:
        there = fitted(data, name, changes)
    same(there, here)
    assert mode.operations > 500
    assert mode.waits.keys() <= PLACES[name.partition(":")[0]]
    settings = short(data, name, changes)
    asks = name.startswith(("dpgan", "dpdm"))  # of gradients, one a step
    assert mode.waits["noise.py:added_flat"] == (settings.steps if asks else 0)
    assert mode.waits["training_state.py:loss"] <= 4
    return mode


def test_all_that_train_networks_have_the_option():
    assert {name.partition(":")[0] for _, name in EVERY} == {
        "dpdm",
        "dpgan",
        "dpgan_images",
        "dpmerf",
        "kernel_teachers",
        "kernel_teachers_images",
        "mixture",
        "pategan",
        "pategan_original",
    }


FEW = (("table", "dpgan"), ("table", "mixture"))


@pytest.mark.heavy
@pytest.mark.parametrize(("data", "name"), sweep(EVERY, FEW.__contains__))
def test_a_fit_elsewhere_is_the_fit_on_the_cpu(data, name, monkeypatch):
    check_elsewhere(monkeypatch, data, name)


@pytest.mark.heavy
@pytest.mark.parametrize(("data", "name", "changes"), MORE)
def test_so_it_is_with_other_settings(data, name, changes, monkeypatch):
    check_elsewhere(monkeypatch, data, name, changes)


def stay(values, device):
    """What a forgotten move does."""
    return values


FORGOTTEN = [  # (data, generator, where, what, instead)
    ("table", "dpgan", table_networks, "moved", stay),
    ("table", "dpgan", Tables, "to", stay),
    ("table", "dpgan", devices, "moved", stay),
    ("table", "dpgan", Records, "encoded_on", lambda records, _: torch.from_numpy(records.encoded())),
    ("images", "dpgan_images", devices, "moved", stay),
    ("table", "kernel_teachers", pair_kernel, "moved", stay),
    ("table", "kernel_teachers", Interactions, "to", stay),
    ("images", "kernel_teachers_images", Coefficients, "to", stay),
    ("table", "dpmerf", devices, "moved", stay),
    ("table", "mixture", Evidence, "to", stay),
    ("images", "dpdm", Prior, "to", lambda prior, device, dtype: prior),  # noqa: ARG005
]


@pytest.mark.parametrize(
    ("data", "name", "where", "what", "instead"), sweep(FORGOTTEN, lambda case: case[1:4:2] == ("dpgan", "moved"))
)
def test_a_forgotten_move_is_noticed(data, name, where, what, instead, monkeypatch):
    monkeypatch.setattr(where, what, instead)
    with elsewhere(monkeypatch), pytest.raises((Mixed, BadInput, CallbackError)) as caught:
        fitted(data, name)
    chain = [caught.value]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    # `Mixed` is not one of Python's own.
    sealed = isinstance(chain[0], CallbackError) and "raised an exception" in str(chain[0])
    assert sealed or any(isinstance(error, Mixed) for error in chain)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ("table", table_generator_network.TableGeneratorNetwork),
        heavy(("images", image_generator_network.ImageGeneratorNetwork)),
    ],
)
def test_a_number_that_is_read_in_every_step_is_noticed(data, kind, monkeypatch):
    plain = kind.step

    def step(self, judged, at):
        plain(self, judged, at)
        assert self.loss == self.loss

    monkeypatch.setattr(kind, "step", step)
    with pytest.raises(AssertionError):
        check_elsewhere(monkeypatch, data, "dpgan" if data == "table" else "dpgan_images")


@pytest.mark.heavy
def test_labels_counted_on_the_device_are_noticed(monkeypatch):
    """Of what the student learnt: how many rows are of a label is known on the CPU, which drew them."""
    columns = kernel_teachers.Columns.student

    def student(self, *answers):
        judged = columns(self, *answers)
        return lambda rows, label: judged(rows, label.to(rows.device))

    monkeypatch.setattr(kernel_teachers.Columns, "student", student)
    with pytest.raises(AssertionError):
        check_elsewhere(monkeypatch, "table", "kernel_teachers")


def test_the_double_behaves_as_a_device_does():
    with Elsewhere() as mode:
        there, here = torch.arange(4.0).to(DEVICE), torch.arange(4.0)
        assert isinstance(there, Away)
        assert there.device == DEVICE
        assert mode.sent == 16
        with pytest.raises(Mixed):
            there + here
        with pytest.raises(Mixed):
            torch.randn(3, device=DEVICE, generator=mode.chance(torch.device("cpu"), 1))
        with pytest.raises((TypeError, RuntimeError)):
            there.numpy()
        assert not mode.waits
        for look in (float, lambda values: values.nonzero(), lambda values: values[values > 1], torch.Tensor.cpu):
            look(there.sum() if look is float else there)
        assert mode.waits["tests"] == 4
        assert torch.equal((there * 2 + there).cpu(), here * 3)


@pytest.mark.parametrize("name", sorted({name.partition(":")[0] for _, name in EVERY}))
def test_a_device_of_no_meaning_is_refused(name):
    with pytest.raises(BadInput, match=r"generator\.device must be one of auto, cpu, cuda, got 'tpu'"):
        kind_of(name)(device="tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
@pytest.mark.parametrize(("data", "name"), EVERY)
def test_a_device_that_is_not_there_is_refused_before_anything_is_charged(data, name):
    schema, frame = (make_schema(), make_frame(30)) if data == "table" else (picture_schema(), make_pictures(30))
    account = Account(BUDGET, Ledger())
    settings = quick(name, data, device="cuda")
    with pytest.raises(BadInput, match=r"there is no CUDA device: use generator\.device=auto or cpu") as refused:
        settings.fit(Sensitive(frame, schema, account, seed=1), seed=1)
    assert "\n" not in str(refused.value)
    assert account.ledger.entries() == ()
    assert account.ledger.charges == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="auto is the GPU")
@pytest.mark.parametrize(("data", "name"), sweep(EVERY, FEW.__contains__))
def test_the_cpu_is_the_default_where_there_is_nothing_else(data, name):
    chosen, default = fitted(data, name, {"device": "cpu"}), fitted(data, name)
    same(chosen, default)


@pytest.mark.heavy
def test_a_release_of_a_gpu_opens_anywhere(monkeypatch):
    """Settings say device=cuda; the model samples where it is opened."""
    with elsewhere(monkeypatch):
        release = fitted("table", "dpgan", {"device": "auto"})
    settings = quick("dpgan", device="cuda")
    again = settings.restore(release.model.schema, release.model.tensors())
    pd.testing.assert_frame_equal(again.sample(40, seed=1), release.model.sample(40, seed=1))
    assert devices.opened("cpu").type == "cpu"
    assert devices.opened("cuda").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("data", "name"), [("table", "dpgan"), heavy(("images", "dpgan_images")), heavy(("images", "dpdm"))]
)
def test_a_fit_stopped_elsewhere_goes_on_here(data, name, tmp_path, monkeypatch):
    """Law 23: what is kept are arrays, and chance is drawn on the CPU: where a fit was stopped says nothing of what becomes of it."""

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    for kind in ("adversarial.game", "dpdm"):
        monkeypatch.setattr(f"synthdp.generators.{kind}.SHOW_EVERY", 5)

    def stopped(folder):
        with pytest.raises(Stop):
            fitted(data, name, progress=stop, **files(folder))
        return files(folder)

    here = stopped(tmp_path / "here")
    with elsewhere(monkeypatch):
        there = stopped(tmp_path / "there")
    models = [fitted(data, name, resume=True, **kept) for kept in (here, there)]
    same(*models)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("data", "name"), EVERY)
def test_a_fit_on_a_gpu_has_the_ledger_of_one_on_the_cpu(data, name):
    fits = {device: fitted(data, name, {"device": device}) for device in ("cpu", "cuda")}
    assert fits["cpu"].ledger.entries() == fits["cuda"].ledger.entries()
    schema = make_schema() if data == "table" else picture_schema()
    schema.validate(fits["cuda"].sample(50, seed=1), "error")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("data", "name"), EVERY)
def test_a_fit_on_a_gpu_starts_where_one_on_the_cpu_does(data, name):
    """The start's answers and the label's distribution come before the first step on the device."""
    fits = [fitted(data, name, {"device": device}).model.tensors() for device in ("cpu", "cuda")]
    assert fits[0].keys() == fits[1].keys()
    for key in fits[0]:
        assert fits[0][key].shape == fits[1][key].shape
        assert np.isfinite(fits[1][key]).all()
        if key == "labels" or key.startswith("start/"):
            np.testing.assert_allclose(fits[0][key], fits[1][key], rtol=1e-5, atol=1e-6)
