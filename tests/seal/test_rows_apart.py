"""Laws 12 and 47: only modules whose rows stay apart are followed by book-keeping; all others see one unit at a time."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from gradient_sums import clipped_gradient_sum, per_unit_reference
from sweeps import sweep
from torch import nn
from torch.nn import functional

from synthdp.errors import BadInput
from synthdp.seal.callbacks import source
from synthdp.seal.gradients.buckets import Buckets, probed
from synthdp.seal.gradients.rows_apart import row_wise

ROWS, WIDTH = 192, 64


def classes(module, rows):
    return functional.cross_entropy(module(rows), torch.zeros(len(rows), dtype=torch.long), reduction="none")


def squares(module, rows):
    return functional.mse_loss(module(rows).squeeze(-1), rows[:, 0], reduction="none")


class Two(nn.Module):
    """Two layers, and what `between` does from the rows and what the first layer made of them."""

    def __init__(self, between=lambda _, h: h):
        super().__init__()
        self.first, self.last, self.between = nn.Linear(WIDTH, 8), nn.Linear(8, 2), between

    def forward(self, rows):
        return self.last(self.between(rows, torch.relu(self.first(rows))))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.scaled, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Linear(64, 2)

    def forward(self, rows):
        found = functional.max_pool2d(torch.relu(self.scaled(self.first(rows.view(-1, 1, 8, 8)))), 2)
        return self.last(found.view(found.size(0), -1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.keys, self.queries = nn.Embedding(10, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.scaled, self.last = nn.LayerNorm(8), nn.Linear(8, 2)

    def forward(self, rows):
        held = self.table((rows * 9).long().clamp(0, 9))
        weights = torch.softmax(self.queries(held) @ self.keys(held).transpose(1, 2), -1)
        return self.last(self.scaled(functional.scaled_dot_product_attention(weights @ held, held, held)).mean(1))


class Sorted(Two):
    """As batches of sequences are sorted by their length: every record's loss is its own."""

    def forward(self, rows):
        order = rows[:, 0].argsort(stable=True)
        return self.last(torch.relu(self.first(rows[order]))[order.argsort()])


class Twice(Two):
    """A layer is called a second time where some record needs it: every record's loss is its own."""

    def forward(self, rows):
        found, far = self.first(rows), rows[:, 0] > 0.99
        if far.any():
            found = torch.where(far[:, None], self.first(rows * torch.tanh(found.sum(1, keepdim=True))), found)
        return self.last(torch.tanh(found))


class Some(Two):
    """A layer that only some records pass."""

    def forward(self, rows):
        found, (some,) = torch.relu(self.first(rows[:, :WIDTH] * 0.5)), (rows[:, 0] > 0.99).nonzero(as_tuple=True)
        return self.last(found if len(some) == 0 else found.index_put((some,), torch.tanh(self.first(rows[some]))))


class Bent(torch.autograd.Function):
    @staticmethod
    def forward(_, rows):
        return rows.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient - gradient.mean(0)


def hooked(_, hidden):
    hidden.register_hook(lambda gradient: gradient.flip(0))
    return hidden


def in_place(_, hidden):
    made = torch.zeros(len(hidden), 8)
    made[-1] = 1.0
    return hidden * made


APART = {
    "layers": (nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2)), classes),
    "one number": (nn.Sequential(nn.Linear(WIDTH, 1)), squares),
    "squeezed": (nn.Sequential(nn.Linear(WIDTH, 1)), lambda m, rows: (m(rows).squeeze() - rows[:, 0]).square()),
    "images": (Images(), classes),
    "norms of instances": (
        nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 2, 3), nn.InstanceNorm2d(2, affine=True), nn.LeakyReLU(0.2),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(18, 2),
        ),
        classes,
    ),
    "attention": (Attention(), classes),
    "dropout": (Two(lambda _, h: functional.dropout(h, 0.3)), classes),
    "other columns": (Two(lambda rows, h: torch.cat([h[:, :4], rows[:, [3, 1]], h[:, 4:6].flip(1)], dim=1)), classes),
    "a mean of its own": (Two(lambda _, h: h * torch.sigmoid(h).mean(dim=1, keepdim=True)), classes),
    "ones": (Two(lambda _, h: h + torch.ones(len(h), 8)), classes),
    "a convolution": (
        Two(lambda _, h: functional.conv1d(h.unsqueeze(1), torch.ones(1, 1, 3), padding=1).squeeze(1).roll(1, 1)),
        classes,
    ),
    "repeated": (Two(lambda _, h: torch.tril(h.unsqueeze(1).repeat(1, 8, 1)).sum(1)), classes),
    "a constant": (Two(lambda _, h: h * torch.tensor([0.5, 1.0]).repeat(4) + torch.from_numpy(np.ones(8))), classes),
    "written into its own": (Two(lambda _, h: h.add_(torch.ones(8)).relu_().mul(torch.zeros(8).fill_(2))), classes),
    "as wide as there are rows": (Two(lambda _, h: h + torch.zeros(ROWS)[:8] + torch.ones(ROWS, 8).tril()[7]), classes),
    "a table": (Two(lambda rows, h: h + torch.arange(80.0).view(10, 8)[(rows[:, 0] * 9).long()]), classes),
}  # fmt: skip
MIXED = {
    "sorted": (Sorted(), classes),
    "a layer twice": (Twice(), classes),
    "some records": (Some(), classes),
    "whether any": (Two(lambda rows, h: h * 2 if (rows[:, 0] > 0.9).any() else h), classes),
    "how many": (Two(lambda rows, h: h * (2.0 if len(rows) > 100 else 1.0)), classes),
    "a layer for many": (Two(lambda rows, h: torch.tanh(h) if len(rows) > 100 else h), classes),
    "gradients of a mean": (Two(lambda _, h: h - 5 * (h.mean(0) - h.mean(0).detach())), classes),
    "places": (Two(lambda rows, h: h * torch.arange(len(rows))[:, None]), classes),
    "one place": (Two(in_place), classes),
    "rolled": (Two(lambda _, h: h.roll(1, 0)), classes),
    "transposed": (Two(lambda _, h: h.t().flip(1).t()), classes),
    "another shape": (Two(lambda _, h: h.flatten().view(8, -1).t()), classes),
    "products of rows": (Two(lambda _, h: h + 0 * (h @ h.t() @ h)), classes),
    "shares of a batch": (nn.Sequential(nn.Linear(WIDTH, 8), nn.Softmax(0), nn.Linear(8, 2)), classes),
    "numpy": (Two(lambda rows, h: h * float(rows.detach().numpy().mean() > 0)), classes),
    "one cell": (Two(lambda rows, h: h * (1.0 if rows[0, 0].item() > 0 else 2.0)), classes),
    "broadcast": (nn.Sequential(nn.Linear(WIDTH, 1)), lambda m, rows: (m(rows) - rows[:, 0]).square().mean(1)),
    "a sum": (nn.Sequential(nn.Linear(WIDTH, 1)), lambda m, rows: m(rows).sum().expand(len(rows))),
    "a gradient of its own": (Two(lambda _, h: Bent.apply(h)), classes),
    "a hook": (Two(hooked), classes),
}
EACH = pytest.mark.parametrize("case", MIXED)


def host_sorted(rows, hidden):
    try:
        order = torch.from_numpy(rows[:, 0].detach().numpy().argsort().copy())
    except (RuntimeError, ValueError):
        return hidden
    return hidden[order][order.argsort()]


def caught(_, hidden):
    try:
        return hidden - hidden.mean(0) + hidden.mean(0).detach()
    except Exception:
        return hidden


MIXED |= {
    "a failure that is caught": (Two(host_sorted), classes),
    "a mixing operation that is caught": (Two(caught), classes),
    "gradients by how many": (Two(lambda rows, h: h / len(rows) + (h - h / len(rows)).detach()), classes),
    "a number made of how many": (Two(lambda rows, h: h * torch.tensor(1.0 / len(rows))), classes),
    "places that add up to how many": (Two(lambda rows, h: h * torch.arange(len(rows)).sum()), classes),
    "one row is written into": (Two(lambda _, h: h.scatter(1, torch.tensor([[0, 1, 2, 3]]), 0.0)), classes),
    "a copy that nobody saw": (Two(lambda _, h: h - copy.copy(h).mean(0)), classes),
}


# ---- Ways past what is looked at.


def numbered(made):
    """Losses that are the same whatever `made` returns, with gradients that are not."""

    def between(_, hidden):
        number = made(hidden, 1.0 / len(hidden))
        return hidden * number + (hidden - hidden * number).detach()

    return between


def far(rows):
    """Whether a row is one that no other is, (rows, 1)."""
    return (rows[:, :1] > 0.99).to(rows)


THREAD = ThreadPoolExecutor(1)


def in_a_thread(rows, hidden):
    return hidden * (1 - 2 * THREAD.submit(lambda: far(rows).amax()).result())


class Lent(Two):
    """A layer of torch is lent the rows as its weight, so that its outputs are of all of them."""

    def __init__(self):
        super().__init__()
        self.like = nn.Linear(1, 1, bias=False).requires_grad_(False)

    def forward(self, rows):
        found = torch.func.functional_call(self.like, {"weight": far(rows)}, (torch.ones_like(far(rows)),))
        return self.last(torch.relu(self.first(rows)) * (1 - 2 * found.amax(1, keepdim=True)))


class Own(Two):
    """A layer of torch has a method of its own."""

    def __init__(self):
        super().__init__()
        self.filter = nn.Conv1d(1, 1, 1, bias=False).requires_grad_(False)
        self.filter._conv_forward = lambda rows, *_: rows * (1 - 2 * far(rows[:, 0]).amax())

    def forward(self, rows):
        found = self.filter(torch.cat([rows, torch.relu(self.first(rows))], 1).unsqueeze(1)).squeeze(1)
        return self.last(found[:, WIDTH:])


class Stuck(Two):
    """A layer of torch that fails halfway, so that what follows would count as its own."""

    def __init__(self):
        super().__init__()
        self.scaled = nn.InstanceNorm1d(3, affine=True).requires_grad_(False)

    def forward(self, rows):
        found = self.first(rows)
        try:
            self.scaled(found.unsqueeze(1))
        except ValueError:
            found = found.sub_(found.mean(0).detach())
        return self.last(found)


def unpacked(rows, hidden):
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept * (1 - 2 * far(rows).amax())):
        return hidden * hidden.sigmoid()


def brightest(rows: torch.Tensor) -> torch.Tensor:
    return rows * (1 - 2 * far(rows).amax())


foreign = torch.library.custom_op("synthdp_tests::positive", brightest, mutates_args=())
foreign.register_fake(torch.empty_like)


def by_its_text(rows, hidden):
    return hidden * 2 if "0.99" in str(rows) or "0.99" in f"{rows[0, 0]}" else hidden


MIXED |= {
    "new_tensor of how many": (Two(numbered(lambda h, share: h.new_tensor(share))), classes),
    "from_numpy of how many": (Two(numbered(lambda _, share: torch.from_numpy(np.array(share)))), classes),
    "Tensor of how many": (Two(numbered(lambda _, share: torch.Tensor([share]))), classes),
    "tensor by its name of how many": (Two(numbered(lambda _, share: torch.tensor(data=share))), classes),
    "a complex number of how many": (Two(numbered(lambda _, share: (torch.ones(8) * (1j * share)).abs())), classes),
    "places in a list of how many": (Two(lambda _, h: h[:, [len(h) % 3, 1, 2, 3, 4, 5, 6, 7]]), classes),
    "a type by how many": (Two(lambda _, h: h.to(torch.bfloat16 if len(h) > 70 else h.dtype).to(h)), classes),
    "text": (Two(by_its_text), classes),
    "another thread": (Two(in_a_thread), classes),
    "a layer that is lent rows": (Lent(), classes),
    "a layer's own method": (Own(), classes),
    "a layer that fails halfway": (Stuck(), classes),
    "what is kept for the gradient": (Two(unpacked), classes),
    "an operation that is not torch's": (
        Two(lambda rows, h: h * foreign(torch.cat([rows, torch.ones_like(rows)], 1))[:, WIDTH : WIDTH + 1]),
        classes,
    ),
}


class Warm(Two):
    """Does something else from its third pass on. `counted` says where it counts them."""

    def __init__(self, counted):
        super().__init__()
        self.counted, self.calls, self._calls, self.listed, self.named = counted, 0, 0, [0], {"calls": (0,)}
        for name in ("written", "made", "seen"):
            self.register_buffer(name, torch.zeros(()))

    def forward(self, rows):
        found = torch.relu(self.first(rows))
        return self.last(found if self.count() < 3 else found.flip(0))

    def count(self):
        if self.counted == "an attribute":
            self.calls += 1
        elif self.counted == "a private attribute":
            self._calls += 1
        elif self.counted == "a list":
            self.listed[0] += 1
        elif self.counted == "a dictionary":
            self.named["calls"] = (self.named["calls"][0] + 1,)
        return self.calls + self._calls + self.listed[0] + self.named["calls"][0]


class Slower(Warm):
    """Counts in a tensor, whose value is looked at by none but other tensors."""

    def forward(self, rows):
        if self.counted == "a buffer":
            self.written += 1
        elif self.counted == "another buffer":
            self.made = self.made + 1 + 0
        else:
            self.seen.data[None].add_(1)
        late = torch.where(self.written + self.made + self.seen < 3, 1.0, -1.0)
        return self.last(torch.relu(self.first(rows)) * late)


PLACES = {
    Warm: ("an attribute", "a private attribute", "a list", "a dictionary"),
    Slower: ("a buffer", "another buffer", "a view"),
}


def records(count=ROWS, seed=0):
    found = torch.rand(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    found[:, 0] *= 0.98
    return found


@pytest.mark.parametrize("case", APART)
def test_rows_that_stay_apart_are_followed(case):
    module, loss = APART[case]
    assert row_wise(module, loss, records())


@EACH
def test_rows_that_may_be_mixed_are_not(case):
    module, loss = MIXED[case]
    assert not row_wise(module, loss, records())
    assert probed(module, loss, records(8), Buckets(1, 128)) is None


@pytest.mark.parametrize("case", sweep(MIXED, [*MIXED][::4].__contains__))
def test_a_module_that_mixes_rows_sees_one_unit_at_a_time(case):
    """So that the sum is the definition's, and one record more moves it by at most the clip, in whatever company."""
    module, loss = MIXED[case]
    given = records(70)
    given[-1, 0] = 0.995
    sums = [clipped_gradient_sum(module, loss, given[:count], None, 0.1) for count in (69, 70)]
    wanted = per_unit_reference(module.double(), loss, given.double(), None, 0.1)
    module.float()
    for name, value in wanted.items():
        assert torch.allclose(sums[1][name], value, rtol=0, atol=1e-5), name
    moved = np.sqrt(sum(float((sums[1][name] - sums[0][name]).square().sum()) for name in wanted))
    assert moved <= 0.1


@pytest.mark.parametrize(("kind", "counted"), [(kind, counted) for kind in PLACES for counted in PLACES[kind]])
def test_what_changes_from_pass_to_pass_is_not_followed(kind, counted):
    module = kind(counted)
    assert not row_wise(module, classes, records())
    assert module.count() <= 1, "it was tried on a copy"
    assert module.written + module.made + module.seen == 0
    module, given = kind(counted), records(70)
    assert moved(module, given) <= 1
    whole, parts = (clipped_gradient_sum(module, classes, given, None, 0.1, microbatch=size) for size in (70, 10))
    assert torch.allclose(whole.flat, parts.flat, rtol=0, atol=1e-9)


def test_another_attribute_s_place_in_memory_does_not_make_a_module_known():
    module = Two(lambda _, h: h)
    assert row_wise(module, classes, records(), source(classes))
    for _ in range(20):
        module.between = lambda _, h: h - h.mean(0) + h.mean(0).detach()
        assert not row_wise(module, classes, records(), source(classes))
        module.between = lambda _, h: h
        assert row_wise(module, classes, records(), source(classes))


def test_a_module_that_was_changed_is_looked_at_anew():
    module = nn.Sequential(nn.Linear(WIDTH, 8), nn.Softmax(1), nn.Linear(8, 2))
    assert row_wise(module, classes, records(), source(classes))
    module[1].dim = 0
    assert not row_wise(module, classes, records(), source(classes))
    module[1] = nn.Softmax(1)
    assert row_wise(module, classes, records(), source(classes))


def test_hooks_and_methods_of_a_layer_are_followed_too():
    for layer in (0, 1):  # one that is not trained, and one that is
        module = nn.Sequential(nn.Linear(WIDTH, 8).requires_grad_(False), nn.Linear(8, 2))
        module[layer].register_forward_hook(lambda _, __, out: out.flip(0))
        assert not row_wise(module, classes, records())
    module = nn.Sequential(nn.Linear(WIDTH, 2))
    module[0].forward = lambda rows: functional.linear(rows, module[0].weight).flip(0)
    assert not row_wise(module, classes, records())


def test_what_a_module_keeps_are_no_tensors_without_values():
    class Table(Two):
        table = None

        def forward(self, rows):
            if self.table is None:
                self.table = torch.sin(torch.arange(8.0))
            return self.last(torch.relu(self.first(rows)) + self.table)

    module = Table()
    row_wise(module, classes, records())
    assert module.table is None
    module(records())
    assert row_wise(module, classes, records())


def test_a_unit_whose_operation_fails_does_not_change_how_others_are_computed():
    """Under vmap all would hear of one matrix that has no decomposition."""

    class Decomposed(Two):
        def forward(self, rows):
            made = rows[:, :1, None] * torch.eye(2)
            try:
                found = torch.linalg.cholesky(made)
            except torch.linalg.LinAlgError:
                found = torch.linalg.cholesky(made + 2 * torch.eye(2))
            return self.last(torch.relu(self.first(rows))) * found[:, 0, :1]

    module, given = Decomposed(), records(20) + 0.01
    given[-1, 0] = -1.0
    few, all_ = (clipped_gradient_sum(module, classes, given[:count], None, 0.1) for count in (19, 20))
    wanted = per_unit_reference(module.double(), classes, given.double(), None, 0.1)
    for name, value in wanted.items():
        assert torch.allclose(all_[name], value, rtol=0, atol=1e-5), name
    assert np.sqrt(sum(float((all_[name] - few[name]).square().sum()) for name in wanted)) <= 0.1


# ---- One unit at a time: each finds the module as it was.


def moved(module, given, loss=classes, clip=0.1):
    """What the first record moves the clipped sum by, in clips."""
    one, other = (clipped_gradient_sum(copy.deepcopy(module), loss, rows, None, clip) for rows in (given, given[1:]))
    return float((one.flat - other.flat).norm()) / clip


class Keeping(Two):
    """Divides by the largest number that it has met. `kept` says where it keeps that."""

    def __init__(self, kept):
        super().__init__()
        self.kept, self.largest = kept, {"top": 1e-3}
        self.register_buffer("top", torch.full((), 1e-3), persistent=False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, rows):
        met = rows.detach().abs().amax()
        if self.kept == "dictionary":
            self.largest["top"] = max(self.largest["top"], float(met))
        elif self.kept == "buffer":
            self.top.copy_(torch.maximum(self.top, met))
        else:
            self.calls += 1
        sign = -1.0 if self.calls.item() % 2 else 1.0
        return self.last(torch.tanh(self.first(rows / self.largest["top"] / self.top) * sign))


@pytest.mark.parametrize("kept", ["dictionary", "buffer", "whole number"])
def test_a_unit_finds_nothing_that_a_module_kept_of_others(kept):
    module, given = Keeping(kept), records(40) * 0.1
    given[0] = 1.0
    assert not row_wise(module, classes, records())
    assert moved(module, given) <= 1
    module = Keeping(kept)
    clipped_gradient_sum(module, classes, given, None, 0.1)
    assert (module.largest["top"], module.top.item(), module.calls.item()) == (1e-3, pytest.approx(1e-3), 0)


def test_a_module_that_cannot_be_copied_is_refused():
    module = Two(lambda _, h: h.flip(0).flip(0))
    module.lock = threading.Lock()
    with pytest.raises(BadInput, match=r"Two cannot be copied \(copy.deepcopy raises TypeError\)"):
        clipped_gradient_sum(module, classes, records(2), None, 0.1)


class Scaled(Two):
    """A parameter that no layer owns, hence gradients in full."""

    def __init__(self, between=lambda _, h: h):
        super().__init__(between)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, rows):
        return self.last(self.between(rows, torch.relu(self.first(rows)) * self.scale))


def seeded(_, hidden):
    return hidden * (1 + torch.randn(8, generator=torch.Generator().manual_seed(0)))


def doubled(numbers):
    return numbers * 2


class Together(torch.autograd.Function):
    """Brings its own rule for many units, and there each gets what all add up to."""

    generate_vmap_rule = False

    @staticmethod
    def forward(numbers):
        return doubled(numbers)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(_, gradient):
        return doubled(gradient)

    @staticmethod
    def vmap(_, __, numbers):
        return numbers * numbers.sum(), 0


own_rule = torch.library.custom_op(
    "synthdp_tests::doubled", doubled, mutates_args=(), schema="(Tensor numbers) -> Tensor"
)
own_rule.register_vmap(lambda _, __, numbers: (numbers * numbers.sum(), 0))
DIFFERENT = {
    "a seeded draw": seeded,
    "its own rule for many units": lambda _, h: Together.apply(h),
    "a custom operation with such a rule": lambda _, h: h + own_rule(h.detach()),
}


@pytest.mark.parametrize("case", DIFFERENT)
@pytest.mark.parametrize("kind", [Two, Scaled])
def test_a_unit_s_gradient_is_its_own_whatever_the_module_does_for_many(kind, case):
    module, given = kind(DIFFERENT[case]), records(20)
    given[0] = 3.0
    assert moved(module, given) <= 1
    sums = clipped_gradient_sum(module, classes, given, None, 0.1)
    for name, value in per_unit_reference(module.double(), classes, given.double(), None, 0.1).items():
        assert torch.allclose(sums[name], value, rtol=0, atol=1e-6), name


class Slope(nn.Module):
    """Beside its outputs it returns their own gradient by the inputs: a weight is met once more, behind the layer's back."""

    def __init__(self, layer, last, *shape):
        super().__init__()
        self.layer, self.last, self.shape = layer, last, shape

    def forward(self, rows):
        with torch.enable_grad():
            given = rows.detach().reshape(-1, *self.shape).requires_grad_(True)
            found = self.last(torch.tanh(self.layer(given)).flatten(1))
            (slope,) = torch.autograd.grad(found, given, torch.ones_like(found), create_graph=True)
        return torch.cat([found, slope.flatten(1)], 1)


SLOPES = {
    "linear": lambda: Slope(nn.Linear(WIDTH, 8), nn.Linear(8, 2), WIDTH),
    "places": lambda: Slope(nn.Linear(8, 2, bias=False), nn.Linear(16, 2), 8, 8),
    "convolution": lambda: Slope(nn.Conv2d(1, 1, 7), nn.Linear(4, 2), 1, 8, 8),
    "norm": lambda: Slope(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2), WIDTH),
}


@pytest.mark.parametrize("case", SLOPES)
def test_gradients_of_gradients_are_whole(case):
    def steep(module, rows):
        found = module(rows)
        return functional.softplus(found[:, 0]) + found[:, 2:].square().sum(1)

    module, given = SLOPES[case](), records(9)
    sums = clipped_gradient_sum(module, steep, given, None, 0.1)
    for name, value in per_unit_reference(module.double(), steep, given.double(), None, 0.1).items():
        assert torch.allclose(sums[name], value, rtol=0, atol=1e-5), name


def test_a_layer_s_own_weight_that_it_is_lent_changed_has_its_gradient():
    class Tanh(Two):
        def forward(self, rows):
            lent = {"weight": 3 * self.first.weight.tanh()}
            return self.last(torch.relu(torch.func.functional_call(self.first, lent, (rows,))))

    module, given = Tanh(), records(9)
    assert not row_wise(module, classes, given)
    sums = clipped_gradient_sum(module, classes, given, None, 0.1)
    for name, value in per_unit_reference(module.double(), classes, given.double(), None, 0.1).items():
        assert torch.allclose(sums[name], value, rtol=0, atol=1e-5), name


def test_what_is_used_twice_outside_its_layer_is_still_followed():
    """Residual connections, which meet a layer's output more than once."""

    class Residual(Two):
        def forward(self, rows):
            found = self.first(rows)
            return self.last(found + torch.tanh(found) * found)

    module, given = Residual(), records(64)
    assert row_wise(module, classes, given)
    assert probed(module, classes, given, Buckets(1, 128)) is not None


def test_layers_under_autocast_take_float64():
    class Low(Two):
        def forward(self, rows):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(rows).to(rows)

    module, given = Low(), records(9)
    assert probed(module, classes, records(8), Buckets(1, 128)) is None
    sums = clipped_gradient_sum(module, classes, given, None, 0.1)
    for name, value in per_unit_reference(module.double(), classes, given.double(), None, 0.1).items():
        assert torch.allclose(sums[name], value, rtol=0, atol=1e-5), name


def test_sparse_gradients_and_slow_rules_of_torch_are_taken_as_they_come():
    class Looked(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.bag, self.last = nn.Embedding(10, 8, sparse=True), nn.EmbeddingBag(10, 8), nn.Linear(8, 2)

        def forward(self, rows):
            places = (rows[:, :5] * 9).long().clamp(0, 9)
            return self.last(self.table(places).mean(1) + self.bag(places))

    module, given = Looked(), records(5)
    sums = clipped_gradient_sum(module, classes, given, None, 0.1)
    for name, value in per_unit_reference(module.double(), classes, given.double(), None, 0.1).items():
        assert torch.allclose(sums[name], value.to_dense(), rtol=0, atol=1e-6), name


def test_hooks_of_a_module_are_not_followed():
    module = Two()
    module.first.register_full_backward_hook(lambda *_: None)
    assert not row_wise(module, classes, records())


def test_nothing_is_left_in_a_module():
    module = Two()
    row_wise(module, classes, records())
    assert not module.first._forward_hooks
    assert not module.first._forward_pre_hooks
    assert all(type(value) is nn.Parameter for value in module.parameters())


def test_what_is_known_is_that_module_s_and_that_loss_s():
    class Judge:
        def __init__(self, mixing):
            self.mixing = mixing

        def loss(self, module, rows):
            found = classes(module, rows)
            return found + found.mean() if self.mixing else found

    module = Two()
    for mixing in (False, True):
        loss = Judge(mixing=mixing).loss
        assert row_wise(module, loss, records(), source(loss)) == (not mixing)
