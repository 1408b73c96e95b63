"""The noisy tables that a fit asked for, as files of its release: `release/tables/`, CSV and Parquet."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.files import limits
from synthdp.generators import HISTORIES, Generator, Model
from synthdp.marginal_tables import NoisyTables
from synthdp.report.facts import ALTERED
from synthdp.report.folder import OF_TABLES
from synthdp.report.information_loss import Counted
from synthdp.report.manifest import TABLES
from synthdp.schema.codec import Codec
from synthdp.schema.file_coding import PLAIN, Reading
from synthdp.schema.schema import Schema
from synthdp.schema.tied_columns import JOINT

ROWS, CHUNK = 100_000, 50_000  # synthetic records that tables are set beside
WAYS = ("one", "two", "three", "four")  # columns of a table, in words


def check_offered(generator: Generator, schema: Schema) -> None:
    """Refuse tables of a generator that learns from other answers, and of pictures."""
    if schema.tables:
        raise BadInput("answers= keeps the noisy tables of one table's columns: leave it out for linked tables")
    if not generator.traits.counted or HISTORIES in generator.traits.kinds:
        raise BadInput(
            f"answers= keeps noisy tables, and {generator.name} learns from other answers: leave it out, or choose a generator "
            "of tables (mixture, aim, mst, privbayes, independent)"
        )
    if schema.image is not None:
        raise BadInput("answers= keeps noisy tables of columns, and this schema has pictures: leave it out")


def frames(noisy: NoisyTables, model: Model, fine: Codec, *, seed: int | None) -> dict[str, pd.DataFrame]:
    """By the number of their columns ("one_way", "two_way" ...) the cells of all tables: `table` is its place among the questions'
    tables, `count` the noisy answer, `standard_error` that of the noise, `model` what as many records of the model have there.
    """
    answers = list(noisy.answers(fine))
    if not answers:
        return {}
    codes = np.concatenate(list(_sampled(model, fine, seed)))
    spread = np.array([answer.cells.size for answer in answers]) * np.array([a.deviation for a in answers]) ** 2
    weights = 1 / np.maximum(spread, 1e-12)
    records = max(0.0, float(weights @ np.array([answer.total for answer in answers]) / weights.sum()))
    labels = {name: _labels(fine, name) for name in {name for answer in answers for name in answer.names}}
    found: dict[str, list[pd.DataFrame]] = {}
    for place, answer in enumerate(answers):
        axes = [_grouped(labels[name], group) for name, group in zip(answer.names, answer.groups, strict=True)]
        held = [
            group[codes[:, fine.names.index(name)]] for name, group in zip(answer.names, answer.groups, strict=True)
        ]
        cells = np.ravel_multi_index(tuple(held), answer.cells.shape)
        expected = np.bincount(cells, minlength=answer.cells.size) * (records / len(codes))
        values = np.meshgrid(*(np.arange(len(axis)) for axis in axes), indexing="ij")
        frame: dict[str, Any] = {"table": place}
        for number, (name, axis, code) in enumerate(zip(answer.names, axes, values, strict=True), 1):
            ending = f"_{number}" if answer.names[1:] else ""
            frame |= {f"column{ending}": name, f"value{ending}": [axis[each] for each in code.ravel()]}
        frame |= {"count": answer.cells.ravel(), "standard_error": answer.deviation, "model": expected}
        found.setdefault(_way(answer.names), []).append(pd.DataFrame(frame))
    return {way: pd.concat(parts, ignore_index=True) for way, parts in sorted(found.items())}


def _way(names: Sequence[str]) -> str:
    return f"{WAYS[len(names) - 1] if len(names) <= len(WAYS) else len(names)}_way"


def _sampled(model: Model, fine: Codec, seed: int | None) -> Iterator[NDArray[Any]]:
    starts = range(0, ROWS, CHUNK)
    for start, part in zip(starts, np.random.SeedSequence(seed).generate_state(len(starts), np.uint64), strict=True):
        yield fine.encode(model.sample(min(CHUNK, ROWS - start), seed=int(part), first_row=start))


def _labels(fine: Codec, name: str) -> list[str]:
    """What each code of a column stands for: a category, a range of numbers, a number, or `missing`."""
    column = next(each for each in fine.columns if each.name == name)
    place = fine.names.index(name)
    size = fine.sizes[place]
    if name not in fine.schema.names:  # a compound of columns that rules tie
        codes = np.zeros((size, len(fine.names)), np.int32)
        codes[:, place] = np.arange(size)
        held = fine.decode(codes, np.random.default_rng(0))[name.split(JOINT)].astype(object)
        rows = held.where(held.notna(), "missing").to_numpy()
        return [", ".join(f"{each}: {value}" for each, value in zip(held.columns, row, strict=True)) for row in rows]
    if column.kind == "boolean":
        found = ["false", "true"]
    elif hasattr(column, "categories"):
        found = [str(category) for category in column.categories]
    else:
        edges = fine.edges(name)
        edges = np.datetime_as_string(edges, unit="auto") if edges.dtype.kind == "M" else edges
        unit = "" if fine.schema.column(name) == column else " above what it must exceed"  # coded as a gap
        found = [
            f"[{low}, {high}{']' if last and column.kind == 'continuous' else ')'}{unit}"
            for low, high, last in zip(edges[:-1], edges[1:], [*[False] * (len(edges) - 2), True], strict=True)
        ]
        found += [str(atom) for atom in fine.atoms(name)]
    return [*found, *["missing"] * (size - len(found))]


def _grouped(labels: Sequence[str], group: NDArray[np.int64]) -> list[str]:
    """The label of each group: of neighbouring ranges their range, else all that is in it."""
    return [
        _joined([labels[int(code)] for code in np.flatnonzero(group == place)]) for place in range(int(group.max()) + 1)
    ]


def _joined(labels: Sequence[str]) -> str:
    ranges = [label for label in labels if label.startswith("[") and ", " in label]
    if len(ranges) == len(labels) > 1:
        lows, highs = ([label.partition(", ")[at] for label in labels] for at in (0, 2))
        if all(low[1:] == high.rstrip(")]") for low, high in zip(lows[1:], highs[:-1], strict=True)):
            return f"{lows[0]}, {highs[-1]}"
    return " | ".join(labels)


def write(tables: Mapping[str, pd.DataFrame], folder: Path, reading: Reading | None = None) -> None:
    """A CSV and a Parquet file of each sort of table, in a new folder. Texts that a spreadsheet would run are neutralised in CSV, which
    has the encoding, separator, line ends and decimals of the schema's `reading`."""
    from synthdp.tables import csvfile

    folder.mkdir()
    for name, frame in tables.items():
        path = folder / f"{name}.csv"
        csvfile.write([frame], path, _as_schema(frame, _plain(reading)))
        frame.to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")


def _plain(reading: Reading | None) -> Reading:
    """What of a reading is not of single columns."""
    if reading is None:
        return PLAIN
    return Reading(
        encoding=reading.encoding, separator=reading.separator, newline=reading.newline, decimal=reading.decimal
    )


def _as_schema(frame: pd.DataFrame, reading: Reading = PLAIN) -> Schema:
    def kind(name: str) -> dict[str, Any]:
        if name == "table":
            return {"kind": "integer", "bounds": [0, max(1, len(frame))]}
        return (
            {"kind": "identifier"}
            if frame[name].dtype == object or frame[name].dtype == "str"
            else {"kind": "continuous", "bounds": [0, 1]}
        )

    columns = {name: kind(name) for name in frame.columns}
    return Schema.from_dict({"columns": columns} | ({} if reading == PLAIN else {"reading": reading.to_dict()}))


def read(folder: Path, counted: Sequence[Counted] | None, schema: Schema) -> dict[str, pd.DataFrame]:
    """The tables of a release, each checked: its columns are those that were asked for, its standard error follows from the noise of
    its question, and its CSV file says the same. Raises `BadInput` for any other."""
    asked = [(table, each.deviation(schema)) for each in counted or () for table in each.tables]
    found: dict[str, pd.DataFrame] = {}
    seen: set[int] = set()
    for way in {_way(table): len(table) for table, _ in asked}.items():
        name, columns = way
        path = folder / TABLES / f"{name}.parquet"
        if not path.is_file() or not path.with_suffix(".csv").is_file():
            raise BadInput(f"{path}: is missing, or its CSV file is; {ALTERED}")
        frame = _parquet(path, columns)
        for place, part in frame.groupby("table", sort=False):
            if not isinstance(place, int) or not 0 <= place < len(asked):
                raise BadInput(f"{path}: holds a table that was not asked for; {ALTERED}")
            _check_table(path, part, *asked[place])
            seen.add(place)
        _check_csv(path.with_suffix(".csv"), frame, _plain(schema.reading))
        found[name] = frame
    extra = {each.name for each in (folder / TABLES).iterdir()} - {way + end for way in found for end in OF_TABLES}
    if len(seen) != len(asked) or extra:
        raise BadInput(
            f"{folder / TABLES}: does not hold the tables that the statement's field counted lists; {ALTERED}"
        )
    return dict(sorted(found.items()))


def _parquet(path: Path, columns: int) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    endings = [""] if columns == 1 else [f"_{number}" for number in range(1, columns + 1)]
    names = ["table", *(f"{part}{ending}" for ending in endings for part in ("column", "value"))]
    types = {"table": pa.int64(), **dict.fromkeys(names[1:], pa.string())}
    types |= dict.fromkeys(("count", "standard_error", "model"), pa.float64())
    try:
        with pq.ParquetFile(path) as file:
            held = file.schema_arrow
            plain = {
                name: pa.string() if pa.types.is_large_string(kind) else kind
                for name, kind in zip(held.names, held.types, strict=True)
            }
            if plain != types or held.names != list(types):
                raise BadInput(f"{path}: does not have the columns of noisy tables; {ALTERED}")
            held_bytes = 8 * file.metadata.num_rows * len(types)
            if held_bytes > limits.FREE and held_bytes > limits.RATIO * path.stat().st_size:
                raise BadInput(f"{path}: would unpack to over {limits.RATIO} times its size; {ALTERED}")
            table = file.read()
            table.validate(full=True)
            frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path}: cannot be read as Parquet ({type(error).__name__}); {ALTERED}") from None
    return frame


def _check_csv(path: Path, frame: pd.DataFrame, reading: Reading) -> None:
    if reading != PLAIN and _is_coded(path, frame, reading):
        return  # else it may be one of the releases that did not heed the reading
    import pyarrow as pa
    import pyarrow.csv as pacsv

    from synthdp.tables import csvfile

    texts = [name for name in frame.columns if name.startswith(("column", "value"))]
    types = {"table": pa.int64(), **dict.fromkeys(texts, pa.string())}
    types |= dict.fromkeys(("count", "standard_error", "model"), pa.float64())
    expected = frame.assign(**{name: [csvfile.neutral(text) for text in frame[name]] for name in texts})
    try:
        options = pacsv.ConvertOptions(column_types=types, strings_can_be_null=False)
        table = pacsv.read_csv(path, parse_options=pacsv.ParseOptions(newlines_in_values=True), convert_options=options)
        same = table.column_names == list(frame.columns) and table.num_rows == len(frame)
        same = same and all(table[name].to_pylist() == expected[name].tolist() for name in frame.columns)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: cannot be read as CSV ({type(error).__name__}); {ALTERED}") from None
    if not same:
        raise BadInput(f"{path}: does not hold what its Parquet file does; {ALTERED}")


def _is_coded(path: Path, frame: pd.DataFrame, reading: Reading) -> bool:
    """Whether a CSV file in the reading's encoding, separator and decimals holds just this."""
    from synthdp.tables import csvfile

    try:
        found = csvfile.read(path, _as_schema(frame, reading))
    except (BadInput, OSError):
        return False
    same = list(found.columns) == list(frame.columns) and len(found) == len(frame)
    return same and all(found[name].tolist() == frame[name].tolist() for name in frame.columns)


def _check_table(path: Path, part: pd.DataFrame, names: Sequence[str], deviation: float) -> None:
    endings = [""] if len(names) == 1 else [f"_{number}" for number in range(1, len(names) + 1)]
    right = all((part[f"column{ending}"] == name).all() for name, ending in zip(names, endings, strict=True))
    exact = np.allclose(part["standard_error"], deviation, rtol=1e-9, atol=0)
    if not (right and exact and np.isfinite(part[["count", "model"]].to_numpy()).all()):
        raise BadInput(
            f"{path}: the table of {' and '.join(names)} does not match the statement's field counted; {ALTERED}"
        )
