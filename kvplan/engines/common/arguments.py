"""What an engine is told and how: one table per engine, `ARGUMENTS` in engines/<name>/arguments.py, read in every direction.

`check` reads the words of a command, variables and configuration files with it (command_line.py), `reconcile` the arguments that a
start-up log prints (printed.py), `emit` writes them (written.py). A row per option; a page is enough for an engine:

    ROWS = (
        row("--tp", "tp", "int"),
        row("--session-len", "max_model_len", "int", printed="session_len max_len"),
        row("--cache-max-entry-count", "memory_fraction", "float", since="0.2"),
        row("--no-prefix-caching", "option:enable_prefix_caching", takes="flag", value=False),
        row("--adapters", "!adapters", takes="many", effect="more"),
        *block({("", ""): "server-port log-level allow-terminate! api-keys*"}),
    )
    ARGUMENTS = Arguments("some", ROWS, program=("some", "serve"), abbreviations=True)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from kvplan.engines.common.bounds import Bound
from kvplan.engines.common.exclusions import Exclusion
from kvplan.engines.common.kinds import counts
from kvplan.engines.common.releases import release, three_parts
from kvplan.engines.common.words import Finding, Given, Unresolved, refuse

#: one: a value; flag: none; switch: none, with a --no- form; many: values up to the next option; maybe: a value if one of `words` follows;
#: each: a value, and those of every time that it is given count, joined by commas
Takes = Literal["one", "flag", "switch", "many", "maybe", "each"]
#: How an option that is not modelled moves the memory that is needed.
Effect = Literal["", "more", "less", "either"]


#: Words by the time that they are there: (last release without them, first without them again) -> words.
Times = Mapping[tuple[str, str], str]


class Config(NamedTuple):
    """The object that an option takes: its keys; first release that takes no notice of another, first that stops at it; first that
    reads `-` as `_` in them; first that stops at what is no object (empty: all)."""

    keys: Times
    heedless: tuple[str, str] = ("", "")
    respelled: str = ""
    alone: str = ""

    def spelled(self, key: str, version: str | None) -> str:
        """A key as a release (None: the newest) reads it."""
        return key.replace("-", "_") if self.respelled and release(version or "9999") >= release(self.respelled) else key


class Argument(NamedTuple):
    """An option.

    names          spellings on the command line; the first long one is written
    to             a name of the question, `option:KEY` (an engine_option), `@key` (the engine's `finish` and `say` make something of it
                   with others), `!key` (memory that is not modelled, see `effect`) or empty (no memory in it)
    kind           how its value is read and written: a key of KINDS (kinds.py)
    since, until   first and last release it was seen in, among the engine's `releases`; empty: before the first, after the last
    value          what a flag stands for (False for `disable_x` spellings of `enable_x`)
    words          with `takes` maybe: the words that are its value
    variables      environment variables that set it
    key            its path in the engine's own configuration file: `kv_cache_config.dtype`
    printed        names in the arguments that a log prints, besides the spellings (`--max-model-len` is printed as max_model_len)
    says           our name of a value -> the engine's, where it is written differently; of several words, the first that a release takes
    """

    names: tuple[str, ...]
    to: str = ""
    kind: str = "text"
    takes: Takes = "one"
    since: str = ""
    until: str = ""
    effect: Effect = ""
    value: Any = True
    words: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    key: str = ""
    printed: tuple[str, ...] = ()
    says: Mapping[str, str] = {}


class Adapters(NamedTuple):
    """LoRA adapters that are named by their files, which hold their ranks.

    slots  how many are held at once; None: as many as there are
    most   the largest rank that the command lets them have, where it says one
    late   the engine starts with a larger one, and fails when a request names it
    """

    paths: tuple[Given, ...]
    slots: int | None = None
    most: int | None = None
    late: bool = False


class Answer(NamedTuple):
    """What an engine makes of its options: names of the question (engine options as `engine_option.KEY`), the model, what is to be said.
    `weights`: the engine's word for what the checkpoint is stored in (stored.py). `trusts`: a repository's own code may run. `adapters`:
    those whose rank the command does not say. `by_kind`: what stops it with a kind of model (exclusions.py)."""

    question: Mapping[str, Given]
    model: Given | None = None
    findings: tuple[Finding, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    local_dp: int | None = None
    nodes: int = 1
    is_worker: bool = False
    weights: Given | None = None
    trusts: bool = True
    adapters: Adapters | None = None
    by_kind: tuple[tuple[str, Finding], ...] = ()


#: What `finish` is told the release by, where it is known.
RELEASE = "@release"
#: Options by what they set (`to`), and the words that no option took -> the answer; plain names and options need nothing of it.
Finish = Callable[[Mapping[str, Given], tuple[Given, ...]], Answer]
#: The other way: names of a question (engine options as `option:KEY`) -> values by `to`, and the names that need no more word.
Say = Callable[[Mapping[str, Any]], tuple[dict[str, Any], set[str]]]


def names(given: Mapping[str, Given]) -> dict[str, Given]:
    """The options that are names of the question, engine options as `engine_option.KEY`."""
    question = {}
    for to, one in given.items():
        if to.startswith("option:"):
            question[f"engine_option.{to[7:]}"] = one
        elif to[:1] not in ("@", "!"):
            question[to] = one
    return question


def plain_finish(given: Mapping[str, Given], positional: tuple[Given, ...]) -> Answer:
    """Every option by itself; the model is `@model`, or the first word that no option takes."""
    return Answer(names(given), given.get("@model") or (positional[0] if positional else None))


def plain_say(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Every name by itself; `off` needs no word."""
    return {}, {name for name in ("speculative", "lora", "multimodal") if asked.get(name) == "off"}


#: The release in a tag of a copy of the engine's own image: behind it what such images are built for, and nothing of a fork's own.
NUMBERED = r"(\d{1,4}\.\d{1,4}(?:\.\d{1,4}){0,2}(?:[.-]?(?:rc|post)\d{1,3}){0,2})"  # as a tag or a package spells it
MIRRORED = (
    rf"v(?=\d+\.\d+\.\d){NUMBERED}"
    r"(?=$|[-+_.](?:cu\d|cuda|rocm|amd64|arm64|aarch64|x86|runtime|srt|g?b200|blackwell|ubuntu|ubi)[^/]*$)"
)


class Repository(NamedTuple):
    """Container images: an expression for the end of the repository, the words they start with, what runs where nothing is said.

    tag   an expression whose first group is the release; empty: its tags number something else
    only  a word of it must be in the tag; empty: any image of it serves
    holds beginning of a tag that numbers something else -> the release that its publisher says is in it
    """

    pattern: str
    entrypoint: tuple[str, ...] = ()
    default: tuple[str, ...] = ()
    tag: str = rf"v?{NUMBERED}(?=$|[-+_.])"
    only: tuple[str, ...] = ()
    holds: Mapping[str, str] = {}


class Arguments(NamedTuple):
    """One engine's command line.

    program        the command that serves: its words before the model; `model_option` comes before the model's name
    commands       what starts it: words before its own, the first an expression (`llama-server(-[a-z0-9]+)?`, `vllm serve`)
    modules        what `python -m` starts it with -> a word after it that is no argument, or, with dashes, options that are another's
    waiting        commands that load no model by themselves; `others`: words after `commands` that start something else
    releases       whose option tables were read, oldest first; empty: one build only
    abbreviations  a unique beginning of a long option is taken for it (argparse)
    opposites      first release in which --disable-x turns --enable-x off, and the other way round; empty: none
    underscores    `_` and `-` are the same in a long option; dotted: --a.b 1 is --a '{"b": 1}', and -O3 is -O 3
    config         its configuration file: empty, `options` (YAML, long options as keys), `keys` (YAML with the rows' keys, named by
                   the option of @config) or `modelfile` (PARAMETER lines with the rows' keys)
    positional     how many words it takes besides its options; -1: any number
    prefix         its variables begin with one of these; `quiet_variables` have no memory in them, nor have those whose name has
                   `quiet_named` in it; `loud_variables` have, and are not modelled; others are not known, where there is a list of the
                   quiet ones; `variable_times`: those that not every release reads, as (first release, last) -> names; `negated`: the
                   beginning that becomes another where a variable turns a switch off
    heedless       one of its variables that it can not read is as not set, and a switch is on
    old_keys       keys of its configuration file that some release had and the newest has not
    always         what every command means (names as in Answer)
    image          repository, tag of a release, tag of the newest: what `emit` writes; `repositories`: what `check` knows
    entrypoint     words of `program` that the image's entrypoint already is
    beside         what runs beside it; `placeholder`: what it loads where no catalogue can name it
    length_bound   it refuses a length beyond the model's own
    choices        option -> the values that its parser takes; `option.key`: those of a key of its object
    objects        option -> the keys of the object that it takes, `option.key`: of an object inside
    bounds         least and most of numbers
    any_word       option -> the first release whose parser takes words that are of no release's choices: the plan refuses them
    truths         switch -> the first release in which no `true` or `false` may follow it any more
    apart          a value is a word of its own: there is no `--name=value`
    exclusions     options that the engine refuses together, or one without another
    packed_only    values of its --quantization that it takes for a checkpoint which holds their settings alone
    experts_only   values of it that quantise a plain checkpoint's experts alone, and the format that they make
    own_code       class -> (first release, first later one that is not so): its repositories' code must run to read their config
    takes_devices  it takes the devices as they are, instead of a number that follows from parallel sizes
    per_slot       max_model_len is one slot's, where a plan says it over all
    explicit       names that its command always says
    every_size     a fixed cache says all sizes that it takes: which of them bounds one pool is not the same in every release and manager
    optional       names whose option is as not given where its value is empty
    """

    name: str
    rows: tuple[Argument, ...]
    finish: Finish = plain_finish
    say: Say = plain_say
    program: tuple[str, ...] = ()
    model_option: Callable[[str], tuple[str, ...]] = lambda model: ()
    commands: tuple[str, ...] = ()
    modules: Mapping[str, str] = {}
    waiting: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()
    releases: tuple[str, ...] = ()
    abbreviations: bool = False
    opposites: str = ""
    underscores: bool = False
    dotted: bool = False
    config: Literal["", "options", "keys", "modelfile"] = ""
    positional: int = -1
    prefix: tuple[str, ...] = ()
    variable_times: Mapping[tuple[str, str], tuple[str, ...]] = {}
    negated: tuple[str, str] = ("", "")
    quiet_variables: tuple[str, ...] = ()
    quiet_named: str = "(?!)"
    loud_variables: tuple[str, ...] = ()
    quiet_keys: frozenset[str] = frozenset()
    old_keys: frozenset[str] = frozenset()
    heedless: bool = False
    always: Mapping[str, Any] = {}
    image: tuple[str, str, str] = ("", "", "latest")
    repositories: tuple[Repository, ...] = ()
    entrypoint: int = 0
    beside: tuple[str, ...] = ()
    placeholder: str = ""
    length_bound: bool = False
    choices: Mapping[str, Times] = {}
    any_word: Mapping[str, str] = {}
    objects: Mapping[str, Config] = {}
    bounds: tuple[Bound, ...] = ()
    truths: Mapping[str, str] = {}
    apart: bool = False
    exclusions: tuple[Exclusion, ...] = ()
    packed_only: frozenset[str] = frozenset()
    experts_only: Mapping[str, str] = {}
    own_code: Mapping[str, tuple[str, str]] = {}
    takes_devices: bool = False
    per_slot: bool = False
    explicit: tuple[str, ...] = ()
    every_size: bool = False
    optional: frozenset[str] = frozenset()


def row(
    names: str, to: str = "", kind: str = "text", takes: Takes = "one", *, since: str = "", until: str = "", effect: Effect = "",
    value: Any = True, words: str = "", variables: str = "", key: str = "", printed: str = "", says: Mapping[str, str] | None = None,
) -> Argument:  # fmt: skip
    """A row; names, words, variables and printed are apart by blanks."""
    split = (tuple(text.split()) for text in (words, variables, printed))
    apart, by_variable, in_logs = split
    return Argument(
        tuple(names.split()), to, kind, takes, since, until, effect, value, apart, by_variable, key, in_logs, says or {}
    )  # fmt: skip


def block(blocks: Mapping[tuple[str, str], str], effect: Effect = "", whole: str = "int") -> tuple[Argument, ...]:
    """Rows of options that set nothing in the question: (since, until) -> names, `a=b` for spellings of one option.

    effect empty: there is no memory in them. A trailing ! is a flag, ? a switch with a --no- form, * takes several values, # a whole
    number (of the kind `whole`), ~ a number, { a JSON object.
    """
    marks: dict[str, Takes] = {"!": "flag", "?": "switch", "*": "many"}
    kinds = {"#": whole, "~": "float", "{": "json"}
    rows = []
    for (since, until), text in blocks.items():
        for word in text.split():
            names = word.rstrip("!?*#~{").split("=")
            spelled = tuple(name if name.startswith("-") else f"--{name}" for name in names)
            to = f"!{spelled[0]}" if effect else ""
            rows.append(Argument(spelled, to, kinds.get(word[-1], "text"), marks.get(word[-1], "one"), since, until, effect))
    return tuple(rows)


def key_rows(text: str, effect: Effect = "") -> tuple[Argument, ...]:
    """Rows of a configuration file's keys that set nothing in the question."""
    return tuple(Argument((), f"!{key}" if effect else "", effect=effect, key=key) for key in text.split())


def dashed(name: str) -> str:
    return name.replace("_", "-")


def is_flag(spelled: str, key: str) -> bool:
    """Whether a spelling is the long option of that name, `_` and `-` alike."""
    return dashed(spelled) == f"--{dashed(key)}"


def by_variable(table: Arguments) -> dict[str, Argument]:
    """Environment variables (of Ollama also the parameters of a Modelfile) -> rows."""
    found = {name: one for one in table.rows for name in one.variables}
    return found | ({one.key: one for one in table.rows if one.key} if table.config == "modelfile" else {})


def has(table: Arguments, row: Argument, version: str | None) -> bool:
    """Whether a release has an option; without one, whether the newest has."""
    if not release(version or "") or not table.releases:
        return not row.until
    asked = three_parts(version or "")
    return (not row.since or three_parts(row.since) <= asked) and (not row.until or asked <= three_parts(row.until))


def lacks(table: Arguments, row: Argument, version: str | None) -> bool:
    """Whether a release surely has no such option: one that was read without it is as new, or as old. Without one, the newest."""
    if not version or not table.releases:
        return bool(table.releases and row.until)
    asked, read = three_parts(version), [three_parts(each) for each in table.releases]
    first, last = three_parts(row.since), three_parts(row.until)
    early = bool(row.since) and any(asked <= each < first for each in read)
    return early or (bool(row.until) and any(last < each <= asked for each in read))


def number(given: Mapping[str, Given], key: str, default: int = 1) -> int:
    """A whole number among the options."""
    one = given.get(key)
    return int(one.value) if one is not None and isinstance(one.value, (int, float)) else default


def loaded_as(one: Given | None) -> Given | None:
    """--load-format, where it names a quantisation: gguf, bitsandbytes."""
    return one if one is not None and one.value in ("gguf", "bitsandbytes") else None


def moved(one: Given, value: Any) -> Given:
    """The same place, another value."""
    return one._replace(value=value)


def adapters_of(one: Given | None, slots: int | None = None, *, most: int | None = None) -> Adapters | None:
    """Those of an option of several `NAME=PATH`, `PATH` or SGLang's JSON; None where there are none."""
    words = one.value if one and isinstance(one.value, list) else str(one.value).split(",") if one and one.value else []
    paths = tuple(moved(one, path) for word in words if one and (path := _path_of(str(word))))
    return Adapters(paths, slots, most) if paths else None


def _path_of(word: str) -> str:
    if word.lstrip().startswith("{"):
        try:
            said = json.loads(word)
        except ValueError:
            return word
        return str(said.get("lora_path") or word) if isinstance(said, dict) else word
    return word.partition("=")[2] or word


def counted(one: Given, question: dict[str, Given], option: str) -> list[Finding]:
    """The engine option that an option of several numbers is, or why the engine would not start."""
    try:
        question[f"engine_option.{option}"] = moved(one, counts(",".join(str(n) for n in one.value)))
    except ValueError as error:
        return [refuse(f"{one.spelled}: {error}; the engine would stop with a usage error", one.place)]
    return []


def allowed(one: Given) -> Finding:
    """A variable that lets the engine go beyond the model's own length."""
    return Finding("longer-allowed", "note", f"{one.spelled} allows lengths beyond the model's own", one.place)
