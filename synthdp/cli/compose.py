"""From `key=value` words to a checked configuration, by Hydra; nothing is written, no `.hydra` folder appears."""

import difflib
import functools
import itertools
import json
import math
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from synthdp import generators
from synthdp.cli import option_values, real_records, settings
from synthdp.errors import BadInput, nearest, without_passwords
from synthdp.files.private_folder import interrupted_after
from synthdp.schema import yaml_faults, yamlfile
from synthdp.sets.named import NAMES, conf_dir

MULTIRUN, CONFIG_DIR = "--multirun", "--config-dir"
MOST_LETTERS = 50_000  # of a word
MOST_RUNS = 10_000  # of one --multirun
# What reading a file of a config group may raise besides Hydra's own errors.
UNREADABLE = (YAMLError, RecursionError, UnicodeDecodeError)
WHERE = "where"  # of sample: a mapping whose names are columns
SURVIVAL = "evaluate.survival"  # names of columns, and such mappings
# Options with names of columns, which Hydra's grammar may not know, and their types.
NAMING: dict[str, type] = {WHERE: dict, SURVIVAL: list}
ACCOUNT = "account.path"  # account=FILE is short for it
DEFAULT = "default"  # of the group generator: nobody chose one
FLAT = ("schema", "split", "sample")  # commands without the group data, where data.path= is path=
FILES = "files"  # of the group data: no named set, but data.path= and data.schema=
Config = dict[str, Any]


def compose(command: str, words: Sequence[str]) -> list[Config]:
    """One configuration per run: several with `--multirun` and values such as `budget.epsilon=0.5,1,3`.

    Raises `BadInput` for words that are not `key=value`, unknown options, values that Hydra cannot read, and required
    options that are missing.
    """
    words, folders, multirun = _flags(words)
    if "account" in settings.GROUPS.get(command, {}):
        words = [ACCOUNT + word.removeprefix("account") if word.startswith("account=") else word for word in words]
    if command in FLAT:
        words = [word.removeprefix("data.") for word in words]
    _check_names(command, words, folders)
    overrides = [_readable(_quoted(_escaped(word), command)) for word in words]
    if command in settings.GROUPS and "data" in settings.GROUPS[command]:
        keys = {word.split("=", 1)[0] for word in words}
        if "data" not in keys and keys & {"data.path", "data.train"}:
            overrides.append(f"data={FILES}")
    runs = list(_sweep(overrides)) if multirun else [(overrides, "")]
    configs = []
    for run, _ in runs:
        with interrupted_after():  # Hydra and OmegaConf turn an interrupt into other errors, or lose it
            configs.append(_one(command, run, folders))
    if multirun:
        for config, (_, name) in zip(configs, runs, strict=True):
            config["run"] = name
            if config["out"] is None:
                continue
            config["out"] = str(Path(config["out"]) / name)
    return configs


def help_text(command: str, summary: str, words: Sequence[str]) -> str:
    """Every option of a command with its default."""
    chosen = dict(word.split("=", 1) for word in words if "=" in word)
    rows: list[tuple[str, Any, str]] = []
    lists: list[str] = []
    for group, default in settings.GROUPS.get(command, {}).items():
        known = f"NAME   one of: {', '.join(choices(group))}   (default: {_default(command, group, default)})"
        lists.append(f"  {group}={'FILE' if group == 'account' else known}")
        kind = _kind(group, chosen)
        rows += [(f"{group}.{field}", value, text) for field, value, text in option_values.helps(kind)]
    rows = [*option_values.helps(settings.OPTIONS[command]), *rows]
    width = max(len(name) for name, _, _ in rows)
    options = [f"  {name:<{width}}  {text} [{shown(value)}]" for name, value, text in rows]
    tail = [
        "",
        "  --multirun         run once for every combination of comma-separated values, into out/<override>/",
        "  --config-dir DIR   a folder with groups of your own (data/, generator/, budget/, ...)",
    ]
    head = [f"usage: synthdp {command} key=value ...", "", summary, ""]
    return "\n".join([*head, *lists, *([""] if lists else []), *options, *tail])


def _default(command: str, group: str, default: str) -> str:
    if group != "generator":
        return default
    table, images = (generators.DEFAULT[kind] for kind in (generators.TABLE, generators.IMAGES))
    with_images = "data" in settings.GROUPS[command]
    return f"{table}, or {images} where the schema has an image column" if with_images else table


def _kind(group: str, named: Mapping[str, str]) -> Any:
    """The settings class of a group; of the generator that is named, or that tables get."""
    if group != "generator":
        return settings.KINDS[group]
    name = named.get(group, DEFAULT)
    return generators.find(generators.DEFAULT[generators.TABLE] if name == DEFAULT else name)


def _flags(words: Sequence[str]) -> tuple[list[str], list[str], bool]:
    plain: list[str] = []
    folders: list[str] = []
    multirun = False
    rest = iter(words)
    for word in rest:
        if len(word) > MOST_LETTERS:
            raise BadInput(f"an option has {len(word):,} characters; at most {MOST_LETTERS:,} are read")
        if word in (MULTIRUN, "-m"):
            multirun = True
        elif word == CONFIG_DIR or word.startswith(CONFIG_DIR + "="):
            folder = word.partition("=")[2] or next(rest, "")
            if not Path(folder).is_dir():
                raise BadInput(f"{CONFIG_DIR} needs an existing folder, got {folder!r}")
            folders.append(str(Path(folder).resolve()))
        elif word.startswith("-") and "=" in word:
            raise BadInput(f"{word!r}: leave the dashes out, as in {word.lstrip('-')!r}")
        elif "=" not in word or word[0] in "+~":
            raise BadInput(f"{word!r} is not of the form key=value")
        else:
            plain.append(word)
    return plain, folders, multirun


def _check_names(command: str, words: Sequence[str], folders: Sequence[str]) -> None:
    """Refuse names that Hydra takes for no choice: that of an optional group if it is wrong, and null of any other."""
    theirs = [file.stem for folder in folders for file in sorted(Path(folder, "experiment").glob("*.yaml"))]
    known = [*choices("experiment"), *theirs]
    for word in words:
        key, _, name = word.partition("=")
        if key == "experiment" and name not in ("null", *known):
            raise BadInput(f"no experiment named {name!r}; known: {', '.join(known)}")
        if key in settings.GROUPS.get(command, {}) and name.lower() in ("null", "none"):
            raise BadInput(f"{key}={name} chooses nothing: give one of {', '.join(choices(key))}, or leave {key}= out")


def _quoted(word: str, command: str) -> str:
    """Text in quotes, since Hydra's grammar must not read it: file names may hold commas and brackets."""
    key, _, value = word.partition("=")
    if not _is_text(command, key) or value in ("", "null") or value[0] in "'\"":
        return word
    escaped = re.sub(r"(\\*)'", lambda match: match[1] * 2 + "\\'", value)
    escaped = re.sub(r"(\\+)$", lambda match: match[1] * 2, escaped).replace("${", "\\${")
    return f"{key}='{escaped}'"


def _is_text(command: str, key: str) -> bool:
    group, _, name = key.rpartition(".")
    kind = settings.KINDS[group] if group in ("data", "account") else None if group else settings.OPTIONS[command]
    return typing.get_type_hints(kind).get(name) in (str, str | None) and key != "accountant" if kind else False


def _escaped(word: str) -> str:
    """A condition whose names of columns Hydra's grammar does not know, as JSON in quotes that it does: `_read_back` reads it."""
    key, _, value = word.partition("=")
    if key not in NAMING or value[:1] not in ("{", "[") or _parses(word):
        return word
    try:
        found = yamlfile.parse(value, key)
    except BadInput:
        return word  # which is refused in the words for all options
    text = json.dumps(found, default=str).replace("'", "\\u0027").replace("$", "\\u0024")  # the grammar's own signs
    return f"{key}='{text}'" if isinstance(found, NAMING[key]) else word


def _read_back(key: str, value: Any) -> Any:
    """The value of an option, read from its JSON if `_escaped` wrote that."""
    return yamlfile.parse(value, key) if key in NAMING and isinstance(value, str) else value


def _parses(word: str) -> bool:
    try:
        OverridesParser.create().parse_override(word)
    except (HydraException, ValueError, RecursionError):
        return False
    return True


def _readable(word: str) -> str:
    """The word, if Hydra's grammar reads it; raises `BadInput` that names it otherwise."""
    if not _parses(word):
        raise BadInput(
            f"{word!r} cannot be read: close every bracket, and put quotes around text with ( ) [ ] {{ }} , = or letters other than a to "
            'z, as in ["Größe (cm)"]'
        )
    return word


def _sweep(overrides: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    choices = [
        [f"{item.get_key_element()}={value}" for value in itertools.islice(item.sweep_string_iterator(), MOST_RUNS + 1)]
        if item.is_sweep_override()
        else [str(item.input_line)]
        for item in parsed
    ]
    if math.prod(map(len, choices)) > MOST_RUNS:
        raise BadInput(f"--multirun would run more than {MOST_RUNS:,} times: give fewer values")
    swept = [item.is_sweep_override() for item in parsed]
    for combination in itertools.product(*choices):
        name = ",".join(word for word, varies in zip(combination, swept, strict=True) if varies)
        yield list(combination), re.sub(r"[^\w.,=+-]", "_", name)


def _one(command: str, overrides: list[str], folders: list[str]) -> Config:
    _register(command, overrides, folders)
    if "generator" in settings.GROUPS.get(command, {}):
        overrides = _chosen(command, overrides, folders)
        _register(command, overrides, folders)
    return _typed(command, _resolved(command, overrides, _composed(command, overrides, folders), whole=True))


def _chosen(command: str, overrides: list[str], folders: Sequence[str]) -> list[str]:
    """The overrides, with the schema's default generator where neither they nor an experiment name one."""
    named = [word for word in overrides if word.startswith("generator=")]
    if named and named[-1] != f"generator={DEFAULT}":
        return overrides
    others = [word for word in overrides if not word.startswith("generator.")]  # settings of a generator not yet known
    plain = _resolved(command, others, _composed(command, others, folders))
    if plain["generator"]["name"] != DEFAULT:
        return overrides
    given = plain.get("data", {})
    data = option_values.made(settings.Data, given, "data.") if isinstance(given, Mapping) else settings.Data()
    known = data.name is not None or data.schema is not None  # else no records, or what the command will refuse
    schema = real_records.declared(data) if known else None
    if plain.get("histories"):  # of a demo
        chosen = generators.HISTORIES
    else:
        chosen = generators.DEFAULT[generators.TABLE] if schema is None else generators.default(schema)
    return [*(word for word in overrides if word not in named), f"generator={chosen}"]


def _composed(command: str, overrides: Sequence[str], folders: Sequence[str]) -> Any:
    GlobalHydra.instance().clear()
    extra = [f"hydra.searchpath=[{','.join('file://' + folder for folder in folders)}]"] if folders else []
    try:
        with initialize_config_dir(str(conf_dir().resolve()), version_base="1.3"):
            return hydra_compose(command, [*overrides, *extra])
    except (HydraException, OmegaConfBaseException) as error:
        raise BadInput(_explained(command, overrides, error)) from error
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be looked up ({error.strerror})") from None
    except UNREADABLE as error:
        raise BadInput(_unreadable(error)) from None
    except ValueError as error:  # a whole number of thousands of digits
        raise BadInput(
            f"a file of {' or '.join(folders) or 'the options'} cannot be read: {in_one_line(error)}"
        ) from None


def _resolved(command: str, overrides: Sequence[str], node: Any, *, whole: bool = False) -> Config:
    """Plain values; with `whole` an option that must be given is."""
    try:
        missing = OmegaConf.missing_keys(node) if whole else ()
        plain: Config = {} if missing else OmegaConf.to_container(node, resolve=True)
    except OmegaConfBaseException as error:
        raise BadInput(_explained(command, overrides, error)) from error
    except (*UNREADABLE, ValueError) as error:
        raise BadInput(f"the options cannot be read: {in_one_line(error)}") from None
    if missing:
        needed = ", ".join(f"{key}=..." for key in sorted(missing))
        raise BadInput(f"{command} needs {needed} (see synthdp {command} --help)")
    return plain


def _register(command: str, overrides: Sequence[str], folders: Sequence[str]) -> None:
    """Tell Hydra of the command's options. Generators are loaded only where they may be chosen: most of them load torch."""
    store = ConfigStore.instance()
    groups = settings.GROUPS.get(command, {})
    # A file of a group, the house's or a user's, need not name every option.
    whole = [f"{group}/default@{group}" for group in groups if group in settings.KINDS]
    chosen = [{group: default} for group, default in groups.items()]
    node = {
        "defaults": [*whole, *chosen, {"optional experiment": None}, "_self_"],
        **option_values.defaults(settings.OPTIONS[command]),
    }
    store.store(name=command, node=node)
    _register_groups()
    if "generator" not in groups:
        return
    named = {word.partition("=")[2] for word in overrides if word.startswith("generator=")}
    files = folders or any(word.startswith("experiment=") for word in overrides)  # which may name any
    _register_generators(tuple(name for name in generators.names() if files or name in named))


@functools.cache
def _register_groups() -> None:
    store = ConfigStore.instance()
    # Without the groups of Hydra's own options (logging, launchers, help), which took half the time and are read by nobody here.
    store.store(group="hydra", name="config", node=HydraConf(defaults=[]))
    for group, kind in settings.KINDS.items():
        store.store(group=group, name="default", node=option_values.defaults(kind))
    for name in choices("data"):
        store.store(group="data", name=name, node={"name": None if name == FILES else name})
    store.store(group="generator", name=DEFAULT, node={"name": DEFAULT})


@functools.cache
def _register_generators(names: tuple[str, ...]) -> None:
    store = ConfigStore.instance()
    for name in names:
        store.store(group="generator", name=name, node={"name": name, **option_values.defaults(generators.find(name))})


def _typed(command: str, plain: Config) -> Config:
    """Groups and flat options as validated dataclasses; the generator with its settings made."""
    _check_no_password(plain)
    flat = {name: value for name, value in plain.items() if name not in settings.GROUPS.get(command, {})}
    flat = {name: _read_back(name, value) for name, value in flat.items()}
    config: Config = {"options": option_values.made(settings.OPTIONS[command], flat), "plain": plain}
    config["out"] = flat.get("out")
    for group in settings.GROUPS.get(command, {}):
        values = plain.get(group)
        if not isinstance(values, Mapping):
            raise BadInput(f"{group} must be a mapping of options to values, such as those of `{group}=...` in a file")
        values = {name: _read_back(f"{group}.{name}", value) for name, value in values.items()}
        if group == "generator":
            if not (name := values.pop("name", None)):
                raise BadInput(
                    f"a file of the group generator needs the key name, one of {', '.join(generators.names())}; further keys set "
                    "that generator's options"
                )
            kind: Any = generators.find(name)
        else:
            kind = settings.KINDS[group]
        config[group] = option_values.made(kind, values, f"{group}.")
    return config


def _check_no_password(values: Any, at: str = "") -> None:
    """What is composed is written to `internal/config.yaml`, and messages repeat parts of it."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            _check_no_password(value, f"{at}.{key}" if at else str(key))
    elif isinstance(values, list):
        for value in values:
            _check_no_password(value, at)
    elif isinstance(values, str) and without_passwords(values) != values:
        raise BadInput(
            f"{at} contains a password, which the command line does not take. For a database put it in the environment (PGPASSWORD), in "
            "~/.pgpass, or in a service file (postgresql:///?service=NAME)"
        )


def _unreadable(error: Exception) -> str:
    if not isinstance(error, YAMLError):
        return f"a file of a group cannot be read: {getattr(error, 'reason', None) or 'it is nested too deep'}"
    mark = getattr(error, "problem_mark", None)
    place, fault = yaml_faults.told(error)
    return f"{getattr(mark or error, 'name', 'a file of a group')}{place}: not valid YAML: {fault}"


def choices(group: str) -> list[str]:
    """The names that a group of options may have."""
    own = [file.stem for file in sorted((conf_dir() / group).glob("*.yaml"))]
    own += ["default"] if group in ("budget", "evaluate", "account", "audit") else []
    found = {"generator": generators.names(), "data": (FILES, *NAMES)}
    return sorted({*own, *found.get(group, ())})


def _explained(command: str, overrides: Sequence[str], error: Exception) -> str:
    known = [name for name, _, _ in option_values.helps(settings.OPTIONS[command])]
    named = dict(word.split("=", 1) for word in overrides)
    for group in settings.GROUPS.get(command, {}):
        known += [group, *(f"{group}.{name}" for name, _, _ in option_values.helps(_kind(group, named)))]
    match = re.search(r"Could not override '([^']+)'", str(error))
    if match:
        near = [name for name in difflib.get_close_matches(match[1], known, 2) if name != match[1]]
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if match[1].startswith("generator."):
            name = _kind("generator", named).name
            return f"generator {name} has no option {match[1]!r}{hint} (see synthdp {command} --help generator={name})"
        return f"{command} has no option {match[1]!r}{hint} (see synthdp {command} --help)"
    match = re.search(r"Ambiguous value for argument '([^'=]+)=(([0-9]+),([0-9]+))?", str(error))
    if match:
        point = f"decimals have a point, as in {match[1]}={match[3]}.{match[4]}; " if match[2] else ""
        return (
            f"{match[1]} has several values: {point}--multirun runs once for each of them, and a list is written [a,b]"
        )
    match = re.search(r"Could not find '([^/']+)/([^']+)'", str(error))
    if match:
        known = choices(match[1])
        return f"{match[1]}={match[2]}: unknown name{nearest(match[2], known)}; known: {', '.join(known)}"
    return in_one_line(error)


def in_one_line(error: Exception) -> str:
    """What an error says, for a message of one line."""
    return " ".join(str(error).split())


def shown(value: Any) -> str:
    if value == "???":
        return "required"
    if isinstance(value, Mapping | list | tuple):
        return ",".join(map(str, value)) or "none"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
