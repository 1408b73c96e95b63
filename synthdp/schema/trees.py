"""Codes with a tree above them, such as ICD-10: which coarser code stands for a finer one that noise hides."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput, check_keys

MOST_LEVELS = 32


@dataclass(frozen=True, kw_only=True)
class Tree:
    """What lies above each code of a column. `prefix`: the lengths of its beginnings that are coarser codes. `parents`: pairs of a
    code and the one above it, which a code has in the place of a beginning, and a beginning above itself.

    `codes` are those that cells may hold, declared, or `learn`; None in a column that is being declared, which fills it in (see
    `Categorical`). A fit keeps some nodes of the tree as the column's categories; a code belongs to the finest of them on its
    `chain`. `leaves`: synthetic records hold codes, drawn uniformly from those that belong to a node. Raises `BadInput`.
    """

    prefix: tuple[int, ...] = ()
    parents: tuple[tuple[str, str], ...] = ()
    codes: tuple[str, ...] | Literal["learn"] | None = None
    leaves: bool = False

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise BadInput(f"tree: {fault}")

    def _faults(self) -> Iterator[str]:
        lengths = self.prefix
        if any(type(n) is not int or n < 1 for n in lengths) or sorted(set(lengths)) != list(lengths):
            yield "prefix must list lengths of codes' beginnings, shortest first, such as [1, 3]"
        if not lengths and not self.parents:
            yield "needs prefix, such as {prefix: [1, 3]}, or a file, such as {file: icd10.csv, parent: parent}"
        if isinstance(self.codes, tuple) and not len(set(self.codes)) == len(self.codes) > 0:
            yield "codes must list one or more, each once"
        if self.leaves and self.codes == "learn":
            yield "leaves: true draws from the declared codes; list them in categories, or leave leaves out"
        if len(self._above) < len(self.parents):
            yield "a code has two parents; keep one"
        if self.levels > MOST_LEVELS:
            yield f"has over {MOST_LEVELS} levels, or a code that is above itself"

    @classmethod
    def from_dict(cls, values: Any) -> "Tree":
        """Raises `BadInput` for anything but the form of `to_dict`, which may leave out `codes`."""
        if not isinstance(values, Mapping):
            raise BadInput("tree: expected a mapping, such as {prefix: [1, 3]}")
        known = [field.name for field in fields(cls)]
        check_keys("tree", values, known, ("file",))
        prefix, parents = values.get("prefix", ()), values.get("parents", {})
        codes, leaves = values.get("codes"), values.get("leaves", False)
        if not isinstance(prefix, list | tuple) or not isinstance(leaves, bool):
            raise BadInput("tree: prefix must be a list of lengths, such as [1, 3], and leaves true or false")
        if not isinstance(parents, Mapping) or not all(_is_text(each) for pair in parents.items() for each in pair):
            raise BadInput("tree: parents must map codes to the codes above them, all as text")
        listed = isinstance(codes, list | tuple) and all(_is_text(code) for code in codes)
        if not listed and codes not in (None, "learn"):
            raise BadInput("tree: codes must be a list of texts, or learn")
        return cls(
            prefix=tuple(prefix),
            parents=tuple(parents.items()),
            codes=tuple(codes) if listed and codes is not None else codes,
            leaves=leaves,
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form without what is not there."""
        plain = {
            "prefix": list(self.prefix),
            "parents": dict(self.parents),
            "codes": self.codes if isinstance(self.codes, str) else list(self.codes or ()),
            "leaves": self.leaves,
        }
        return {key: value for key, value in plain.items() if value}

    def of(self, codes: Sequence[str] | Literal["learn"], other: str | None) -> "Tree":
        """The same tree over these codes; `other` is not one of them."""
        if isinstance(codes, str):
            return replace(self, codes="learn")
        return replace(self, codes=tuple(code for code in codes if code != other))

    @property
    def declared(self) -> bool:
        """Whether the codes are public, and need not be bought."""
        return self.codes != "learn"

    @cached_property
    def _above(self) -> dict[str, str]:
        return dict(self.parents)

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset({*self._above, *self._above.values()})

    @cached_property
    def levels(self) -> int:
        """The most nodes on the chain of a code."""
        if self.declared and self.codes:
            return max(len(self._chain(code)) for code in self.codes)
        return max((len(self._chain(code)) for code in self._above), default=1) + len(self.prefix)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Every node above or at a declared code, in order."""
        codes = () if self.codes is None or isinstance(self.codes, str) else self.codes
        return tuple(sorted({node for code in codes for node in self.chain(code)}))

    @cached_property
    def every(self) -> frozenset[str]:
        """All nodes as a set, in which a code is looked up fast."""
        return frozenset(self.nodes)

    @cached_property
    def coarsest(self) -> tuple[str, ...]:
        """The last nodes of the declared codes' chains, in order."""
        codes = () if self.codes is None or isinstance(self.codes, str) else self.codes
        return tuple(sorted({self.chain(code)[-1] for code in codes}))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """What a declared tree's counts of `nodes` are multiplied by before noise is added, (nodes,). The squares along a chain add up to
        just below `levels`, as those of equal weights would to at most `levels`.

        Of all such weights they make the sum of the variances least. A node's subtree whose squares may add up to s along a chain has the
        variance a/s at best: a = 1 without nodes below, else a = (1 + sqrt(sum of their a))^2, where the node's own square is s/sqrt(a).
        (What is lacking from `levels` is for the rounding of weighed counts, which for 2^30 units moves one by less than 2^-22 of itself.)
        """
        chains = {node: self.chain(node) for node in self.nodes}
        finest_first = sorted(self.nodes, key=lambda node: -len(chains[node]))
        below = dict.fromkeys(self.nodes, 0.0)
        for node in finest_first:
            for above in chains[node][1:2]:
                below[above] += (1 + math.sqrt(below[node])) ** 2
        left, square = dict.fromkeys(self.nodes, float(self.levels)), {}
        for node in reversed(finest_first):
            mine = left[node] if len(chains[node]) == 1 else left[chains[node][1]]
            square[node] = mine / (1 + math.sqrt(below[node]))
            left[node] = mine - square[node]
        longest = max((sum(square[each] for each in chain) for chain in chains.values()), default=1.0)
        found = np.sqrt(np.array([square[node] for node in self.nodes]) * self.levels / longest)
        return (1 - 1e-6) * found

    def chain(self, code: str) -> tuple[str, ...]:
        """A code and what lies above it, finest first; at most `levels`."""
        return self._chain(code)[: self.levels]

    def _chain(self, code: str) -> tuple[str, ...]:
        found = [code]
        for length in reversed(self.prefix):
            if found[-1] in self._listed:
                break
            if length < len(found[-1]):
                found.append(code[:length])
        while found[-1] in self._above and len(found) <= MOST_LEVELS:
            found.append(self._above[found[-1]])
        return tuple(found)

    def finest(self, code: str, kept: Collection[str]) -> str | None:
        """The finest node on a code's chain that is kept; None where none is."""
        return next((node for node in self.chain(code) if node in kept), None)

    def used(self, kept: Collection[str]) -> tuple[str, ...]:
        """The kept nodes that codes belong to, in order: of declared codes not those whose codes all belong to finer ones."""
        if self.codes is None or isinstance(self.codes, str):
            return tuple(sorted(kept))
        return tuple(sorted({node for code in self.codes if (node := self.finest(code, kept)) is not None}))

    def below(self, kept: Sequence[str]) -> list[tuple[str, ...]]:
        """For each kept node the declared codes that belong to it; the node itself where there are none."""
        found: dict[str, list[str]] = {node: [] for node in kept}
        for code in () if self.codes is None or isinstance(self.codes, str) else self.codes:
            if (node := self.finest(code, found)) is not None:
                found[node].append(code)
        return [tuple(codes) or (node,) for node, codes in found.items()]

    def groups(self, kept: Sequence[str], most: int) -> tuple[int, ...]:
        """The group of each kept node, of at most `most` groups unless there are more coarsest nodes. At first all nodes below a coarsest
        node are a group. Then, again and again, the largest group that the next finer nodes divide without exceeding `most` is divided."""
        chains = {node: self.chain(node)[::-1] for node in kept}
        found: dict[tuple[str, ...], list[str]] = {}
        for node, chain in chains.items():
            found.setdefault(chain[:1], []).append(node)
        while True:
            for above in sorted(found, key=lambda each: (-len(found[each]), each)):
                parts: dict[tuple[str, ...], list[str]] = {}
                for node in found[above]:
                    parts.setdefault(chains[node][: len(above) + 1], []).append(node)
                if [*parts] != [above] and len(found) + len(parts) - 1 <= most:
                    break
            else:
                place = {node: at for at, above in enumerate(sorted(found)) for node in found[above]}
                return tuple(place[node] for node in kept)
            del found[above]
            found |= parts

    def depth(self, node: str) -> int:
        """The level of a node, 1 for the coarsest."""
        return len(self.chain(node))


class Codes(dict[str, int]):
    """A table of categories' codes that has every other text under the finest category on its chain."""

    def __init__(self, table: Mapping[str, int], tree: Tree) -> None:
        super().__init__(table)
        self._tree, self._met = tree, dict(table)

    def get(self, key: str, default: Any = None) -> Any:
        """Total; what was found is remembered."""
        if key not in self._met:
            node = self._tree.finest(key, self)
            self._met[key] = default if node is None else self[node]
        return self._met[key]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
