"""Python code that makes an engine: `LLM(model=...)`, `AsyncEngineArgs(...)`, `sgl.Engine(...)`, `LLMConfig(...)`, a list of words for
subprocess. Only literals are read, with the names, f-strings and os.environ defaults that stand for them; nothing is run.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from kvplan.engines.common.words import Finding, Place, Word
from kvplan.errors import SpecError
from kvplan.manifests import launchers, mentions, requested
from kvplan.manifests.budget import spend
from kvplan.manifests.command import Start, scripts, starts
from kvplan.manifests.comprehended import unrolled
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.literals import TYPES, Open, as_json, cast, compared, flat, joined, known, operated, option, parse, shown, split, word
from kvplan.manifests.marked import Item
from kvplan.manifests.script import read_script
from kvplan.manifests.words import Command

#: Calls -> engine; `LLM` is TensorRT-LLM's where that is imported.
CALLS = {
    "LLM": "vllm", "AsyncEngineArgs": "vllm", "EngineArgs": "vllm", "LLMConfig": "vllm", "AsyncLLM": "vllm", "Engine": "sglang",
    "ServerArgs": "sglang", "Runtime": "sglang", "RayEngine": "sglang", "pipeline": "lmdeploy",
}  # fmt: skip
KEYS = "keywords.yaml"  # what stands for the keywords of tensorrt_llm.LLM
MODELS = ("model", "model_path", "model_name_or_path")
MAX_NODES, MAX_DEPTH = 50_000, 60
CALLED = 12  # levels of depth that reading a function takes


class _Scope(NamedTuple):
    """Names -> values; each function's parameters come before the module's names."""

    names: Mapping[str, Any]
    env: Mapping[str, Word]


def is_python(source: str) -> bool:
    """By its name."""
    return source.lower().endswith(".py")


def read(text: str, source: str, base: Place, env: Mapping[str, Word]) -> Iterator[tuple[Start, Site]]:
    """The engines that the code makes. Raises SpecError where it is no Python."""
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = base.line + (getattr(error, "lineno", 1) or 1) - 1
        raise SpecError(source, [(f"line {line}", "not Python that can be read")]) from None
    nodes = sum(1 for _ in islice(ast.walk(tree), MAX_NODES + 1))
    if nodes > MAX_NODES:
        raise SpecError(source, [("", f"more than {MAX_NODES:,} parts; no server's code is that large")])
    spend(nodes // 4, base.line)
    yield from _Reader(tree, source, base, env).read()


class _Reader:
    """One pass over a module; local to read."""

    def __init__(self, tree: ast.Module, source: str, base: Place, env: Mapping[str, Word]) -> None:
        self._tree, self._source, self._base = tree, source, base
        self._imported = {
            (alias.asname or alias.name).split(".")[0]: f"{getattr(node, 'module', '') or ''}.{alias.name}"
            for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names
        }  # fmt: skip
        self._env = {**env, **{n: Word(t, Place(base.line + at - 1)) for n, t, at in launchers.environment(tree) if n not in env}}
        self._scope = _Scope({}, self._env)
        self._bound: dict[str, ast.Call] = {}
        self._within: list[ast.AST] = []  # functions whose parameters are being read
        self._asked, self._parsed, self._functions = launchers.asked(tree), launchers.parsed(tree), launchers.functions(tree)

    def read(self) -> Iterator[tuple[Start, Site]]:
        self._learn(self._tree.body)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and (name := launchers.class_of(node)):
                self._bound.setdefault(name, node)
        pins, found = self._pinned(), list(self._block(self._tree.body, self._scope, Site("", why=NO_DEVICE)))
        for start, site in found:
            version, *notes = pins.get(start.engine, (None,)) if start.version is None else (start.version,)
            yield start._replace(version=version), site._replace(findings=(*site.findings, *notes))
        yield from self._listed(launchers.left_over(self._tree) if found else ast.walk(self._tree))

    def _pinned(self) -> dict[str, tuple[str | None, Finding]]:
        """The releases that f-strings install (`f"vllm=={VERSION}"`); those of plain texts are found without this."""
        found: dict[str, tuple[str | None, Finding]] = {}
        for node in (one for one in ast.walk(self._tree) if isinstance(one, ast.JoinedStr)):
            text = self._value(node, self._scope)
            pins = mentions.pinned(text) if type(text) is str and "==" in text else dict[str, tuple[str | None, Finding]]()
            found |= {engine: (release, note._replace(place=self._place(node))) for engine, (release, note) in pins.items()}
        return found

    def _listed(self, nodes: Iterable[ast.AST]) -> Iterator[tuple[Start, Site]]:
        """Lists of words that begin as an engine's command does, and that nothing here is seen to run."""
        for node in nodes:
            if isinstance(node, ast.List) and len(node.elts) > 1:
                why = f"what runs the list of line {self._place(node).line} is not read, and may add to it"
                for start in self._words(node, self._scope, self._base.line + (node.end_lineno or 1) - 1):
                    yield start._replace(opaque=start.opaque or why), Site("", why=NO_DEVICE, place=start.place)

    def _learn(self, body: Sequence[ast.stmt]) -> None:
        names = dict(self._scope.names)
        for node in body:
            self._assign(node, names)
        self._scope = _Scope(names, self._env)

    def _branched(self, node: ast.stmt, names: dict[str, Any]) -> None:
        """What a branch may have changed is open after it; a block that always runs, or is known to, is read on."""
        holds = self._truth(node.test, _Scope(names, self._env)) if isinstance(node, ast.If) else None
        bodies = launchers.bodies(node) if holds is None else [node.body if holds else node.orelse] if isinstance(node, ast.If) else []
        for body in bodies:
            for inner in body:
                if isinstance(node, (ast.With, ast.AsyncWith, ast.Try)) or holds is not None:
                    self._assign(inner, names)
                    self._branched(inner, names)
                    continue
                for one in ast.walk(inner):
                    if isinstance(one, ast.Expr) and (more := launchers.grown(one, names)):
                        names[more[0]] = [*names[more[0]], Open(more[0])]
                    target = one.target if isinstance(one, ast.AugAssign) else one.targets[0] if isinstance(one, ast.Assign) else None
                    if isinstance(target, ast.Name) and target.id in names:
                        held = names[target.id]
                        grows = isinstance(one, ast.AugAssign) and isinstance(held, list)
                        names[target.id] = [*held, Open(target.id)] if grows else Open(target.id)

    def _assign(self, node: ast.stmt, names: dict[str, Any]) -> None:
        if isinstance(node, ast.Expr) and (more := launchers.grown(node, names)):
            name, how, argument = more
            added = self._value(argument, _Scope(names, self._env))
            names[name] = [*names[name], *(added if how == "extend" and isinstance(added, list) else [added])]
            return
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in names:
            names[node.target.id] = operated(node.op, names[node.target.id], self._value(node.value, _Scope(names, self._env)))
            return
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                names[target.id] = self._value(value, _Scope(names, self._env))

    def _block(self, body: Sequence[ast.stmt], scope: _Scope, site: Site, owner: str = "") -> Iterator[tuple[Start, Site]]:
        names = dict(scope.names)
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from self._block(node.body, _Scope(names, self._env), self._decorated(node, site), node.name)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inner = {**names, **self._parameters(node, owner)}
                yield from self._block(node.body, _Scope(inner, self._env), self._decorated(node, site), owner)
            else:
                self._assign(node, names)
                here = _Scope(names, self._env)
                for call in launchers.calls(node):
                    yield from self._call(call, here, site)
                for inner_body in launchers.bodies(node):
                    yield from self._block(inner_body, here, site, owner)
                self._branched(node, names)

    def _parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, *, called: bool = False) -> dict[str, Any]:
        """A function's parameters: what the one call of its class gives, but for one that is `called`, else their defaults, else open."""
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        plain = [*node.args.posonlyargs, *node.args.args]
        defaults = dict(zip([a.arg for a in plain[len(plain) - len(node.args.defaults) :]], node.args.defaults, strict=True))
        defaults |= {a.arg: d for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None}
        call = None if called else self._bound.get(owner if node.name == "__init__" else node.name)
        given: dict[str, ast.expr] = dict(launchers.given(call, [a.arg for a in plain if a.arg != "self"])) if call else {}
        found: dict[str, Any] = {}
        self._within.append(node)
        for argument in arguments:
            value = given.get(argument.arg, defaults.get(argument.arg)) if self._within.count(node) == 1 else None  # it calls itself
            found[argument.arg] = Open(argument.arg) if value is None else self._value(value, self._scope)
        self._within.pop()
        found.pop("self", None)
        return found

    def _decorated(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, site: Site) -> Site:
        """Modal's `gpu="H100:2"` or a list, BentoML's `resources={"gpu": 1, "gpu_type": ...}`, Ray's accelerator_type of a decorator."""
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                site = self._sited({k.arg: k.value for k in decorator.keywords if k.arg}, site)
        return site

    def _sited(self, given: Mapping[str, ast.expr], site: Site) -> Site:
        for key in ("gpu", "accelerator_type", "resources"):
            if key not in given:
                continue
            place = self._place(given[key])
            value: Any = self._value(given[key], self._scope)
            count: Any = None
            if isinstance(value, dict):
                count, value = value.get("gpu"), value.get("gpu_type")
            elif key == "gpu" and "gpu_count" in given:  # Beam
                count = self._value(given["gpu_count"], self._scope)
            if key == "gpu" and isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                value = ",".join(value)  # any of them will do
            if isinstance(value, str):
                text = f"{value}:{count}" if isinstance(count, int) else value
                item = Item(text, text, place, place.line)
                hardware = requested.hardware(item, key, requested.MODAL if key == "gpu" else {})
                n = hardware.n_devices if key != "accelerator_type" else None
                site = site._replace(device=hardware.device, n_devices=n, why=hardware.why, place=place)
        return site

    def _call(self, call: ast.Call, scope: _Scope, site: Site) -> Iterator[tuple[Start, Site]]:
        name = launchers.dotted(call.func)
        last, place, end = name.rpartition(".")[2], self._place(call), self._base.line + (call.end_lineno or 1) - 1
        site = site._replace(span=(place.line, end))
        if last in ("Popen", "run", "call", "check_call", "check_output", "system", "execvp", "spawn") and call.args:
            try:
                yield from ((start, site) for start in self._words(call.args[-1 if last == "execvp" else 0], scope, end))
            except SpecError:  # `sgl.system("what it's for")` is no shell's text
                if re.match(r"\.?(os|subprocess)\b", self._imported.get(name.split(".")[0], name)):
                    raise
            return
        engine = self._engine(name)
        if not engine:
            asked = {k.arg: k.value for k in call.keywords if k.arg}
            for key in {"entrypoint", "command", "cmd"} & set(asked) if "gpu" in asked else ():  # Beam's Pod and its like
                yield from ((start, self._sited(asked, site)) for start in self._words(asked[key], scope, end))
            return
        given = {k.arg: self._value(k.value, scope) for k in call.keywords if k.arg}
        places = {k.arg: self._place(k.value) for k in call.keywords if k.arg}
        for keyword in call.keywords:  # **ARGUMENTS
            if keyword.arg is None and isinstance(more := self._value(keyword.value, scope), dict):
                given |= {str(key): value for key, value in more.items() if str(key) not in given}
        if last == "LLMConfig":
            loading = given.get("model_loading_config")
            loading = loading if isinstance(loading, dict) else {}
            model, options = loading.get("model_source") or loading.get("model_id"), given.get("engine_kwargs")
            site = self._sited({k.arg: k.value for k in call.keywords if k.arg}, site)
            given = dict(options) if isinstance(options, dict) else {}
        else:
            first = self._value(call.args[0], scope) if call.args else None
            model = next((given.pop(key) for key in MODELS if key in given), first)
        if model is None and not given.keys() - {"server_args"}:  # ServerArgs(...) is read where it is made
            return
        words = [word(model, place)] if model is not None else []
        files = {}
        if engine == "tensorrt-llm" and given:  # its keywords are the keys of trtllm-serve's file (LlmArgs)
            files, words = {KEYS: (json.dumps(shown(given), default=str)[:65_536], place)}, [*words, *option("config", KEYS, place)]
        for key, value in () if files else given.items():
            words += option(key, value, places.get(key, place))
        if engine == "sglang" and model is not None:
            words = [Word("--model-path", place), *words]
        yield Start(engine, tuple(words), {}, place, end, in_container=True, files=files), site

    def _engine(self, name: str) -> str:
        head, _, last = name.rpartition(".")
        origin = self._imported.get(name.split(".")[0], "")
        if last not in CALLS or (not head and not origin):
            return ""
        whole = f"{origin} {head}"
        for part, engine in (("tensorrt_llm", "tensorrt-llm"), ("sglang", "sglang"), ("sgl", "sglang"), ("lmdeploy", "lmdeploy"),
                             ("vllm", "vllm"), ("ray.serve.llm", "vllm")):  # fmt: skip
            if part in whole and (CALLS[last] == engine or (engine == "tensorrt-llm" and last == "LLM")):
                return engine
        return ""

    def _words(self, node: ast.expr, scope: _Scope, end: int) -> Iterator[Start]:
        """The engines of the words handed to a process."""
        value = self._value(node, scope)
        place = self._place(node)
        if isinstance(value, list):
            words = tuple(word(part, place) for part in value)
            yield from starts(Command(words, self._env, place, end), self._source, {})
        elif isinstance(value, str):
            yield from scripts(read_script(value, self._source, base=place, breaks=((0, place.line),), env=self._env), self._source)

    def _place(self, node: ast.AST) -> Place:
        return Place(self._base.line + getattr(node, "lineno", 1) - 1, getattr(node, "col_offset", 0) + 1)

    def _value(self, node: ast.AST | None, scope: _Scope, depth: int = 0) -> Any:
        """A value of literals and of names that hold them; Open for all else."""
        spend(1, self._base.line)
        again = depth + 1
        if node is None or depth > MAX_DEPTH:
            return Open("a value")
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return scope.names.get(node.id, TYPES.get(node.id, Open(node.id)))
        if isinstance(node, ast.Attribute):
            if launchers.dotted(node) == "sys.executable":
                return "python3"
            if isinstance(node.value, ast.Name) and node.value.id in self._parsed and node.attr in self._asked:
                value = self._value(self._asked[node.attr], self._scope, again)
                return Open(node.attr) if value is None else value
            return scope.names.get(node.attr, Open(node.attr))
        if isinstance(node, (ast.List, ast.Tuple)):
            return flat([(self._value(e.value if isinstance(e, ast.Starred) else e, scope, again), isinstance(e, ast.Starred))
                          for e in node.elts])  # fmt: skip
        if isinstance(node, ast.Dict):
            return {
                str(self._value(k, scope, again)): self._value(v, scope, again) for k, v in zip(node.keys, node.values, strict=True) if k
            }
        if isinstance(node, ast.JoinedStr):
            return joined([self._value(v.value if isinstance(v, ast.FormattedValue) else v, scope, again) for v in node.values])
        if isinstance(node, ast.BinOp):
            return operated(node.op, self._value(node.left, scope, again), self._value(node.right, scope, again))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(node.operand, scope, again)
            return -value if isinstance(value, (int, float)) else value
        if isinstance(node, ast.IfExp) and (holds := self._truth(node.test, scope, again)) is not None:
            return self._value(node.body if holds else node.orelse, scope, again)
        if isinstance(node, ast.ListComp):
            return unrolled(node, scope.names, lambda part, names: self._value(part, _Scope(names, self._env), again))
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            values = [self._value(v, scope, again) for v in node.values]
            return next((v for v in values if not isinstance(v, Open) and v), values[-1])
        if isinstance(node, ast.Subscript):
            holder, key = self._value(node.value, scope, again), self._value(node.slice, scope, again)
            if isinstance(holder, dict) and isinstance(key, str):
                return holder.get(key, Open(key))
            if isinstance(holder, list) and isinstance(key, int):
                return holder[key] if -len(holder) <= key < len(holder) else Open("a value")
            return (
                self._variable(key, None) if launchers.dotted(node.value).endswith("environ") and isinstance(key, str) else Open("a value")
            )
        return self._called(node, scope, again) if isinstance(node, ast.Call) else Open("a value")

    def _called(self, node: ast.Call, scope: _Scope, depth: int) -> Any:
        """`os.environ.get`, `int`, `str.join`, `dict(...)` and their like."""
        name = launchers.dotted(node.func)
        values = [self._value(a, scope, depth) for a in node.args[:3]]
        if name.endswith(("environ.get", "os.getenv", "getenv")) and values and isinstance(values[0], str):
            return self._variable(values[0], values[1] if len(values) > 1 else None)
        is_gpu = re.search(r"(^|\.)gpu\.\w+$", name)  # modal.gpu.A100(size="80GB", count=2), before Modal took texts
        if name == "dict" or is_gpu:
            given = {k.arg: self._value(k.value, scope, depth) for k in node.keywords if k.arg}
            size = f"-{given['size']}" if given.get("size") else ""
            return joined([name.rpartition(".")[2], size, ":", given.get("count", 1)]) if is_gpu else given
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("strip", "lower", "upper") and not node.args:
            holder = self._value(node.func.value, scope, depth)
            return getattr(holder, node.func.attr)() if type(holder) is str else holder if isinstance(holder, Open) else Open(name)
        if name in ("int", "float", "str", "bool") and values:
            return cast(name, values[0])
        if name in ("json.dumps", "list", "bentoml.models.HuggingFaceModel") and values and not isinstance(values[0], Open):
            return as_json(values[0]) if name == "json.dumps" else values[0]
        if (isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "split", "rsplit") and values[:1] != []) or name.endswith(
            ".split"
        ):
            holder = self._value(node.func.value, scope, depth) if isinstance(node.func, ast.Attribute) else None
            if name == "shlex.split" or (name.endswith("split") and isinstance(holder, str)):
                return split(name, holder, values)
            if values and isinstance(values[0], list) and isinstance(holder, str):
                return joined([part for n, word in enumerate(values[0]) for part in ((holder, word) if n else (word,))])
        last = name.rpartition(".")[2]  # KVTransferConfig(…)
        if last.endswith("Config") and last not in CALLS and name.partition(".")[0] in self._imported and not node.args:
            return {k.arg: self._value(k.value, scope, depth) for k in node.keywords if k.arg}
        own = self._functions.get(name.removeprefix("self."))
        called = own is not None and own not in self._within and depth < MAX_DEPTH - CALLED
        return self._returned(own, node, scope, depth) if own is not None and called else Open(name or "a call")

    def _returned(self, own: ast.FunctionDef, call: ast.Call, scope: _Scope, depth: int) -> Any:
        """What a function of the module returns: its assignments read in their order, up to a `return` that always runs."""
        arguments = [a.arg for a in (*own.args.posonlyargs, *own.args.args) if a.arg != "self"]
        names = {**self._scope.names, **self._parameters(own, "", called=True)}
        names |= dict(zip(arguments, (self._value(a, scope, depth) for a in call.args), strict=False))
        names |= {k.arg: self._value(k.value, scope, depth) for k in call.keywords if k.arg}
        with launchers.inside(self._within, own):
            body = [*own.body]
            while body:
                node = body.pop(0)
                if isinstance(node, ast.Return):
                    return self._value(node.value, _Scope(names, self._env), depth + CALLED)
                holds = self._truth(node.test, _Scope(names, self._env), depth + CALLED) if isinstance(node, ast.If) else None
                if isinstance(node, ast.If) and holds is not None:
                    body = [*(node.body if holds else node.orelse), *body]
                elif isinstance(node, ast.If) and any(isinstance(one, ast.Return) for one in ast.walk(node)):
                    break  # which of two it returns is not known
                else:
                    self._assign(node, names)
                    self._branched(node, names)
        return Open(own.name)

    def _truth(self, node: ast.expr, scope: _Scope, depth: int = 0) -> bool | None:
        """Whether a condition holds, as far as literals and the defaults of the program's own options say."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            holds = self._truth(node.operand, scope, depth + 1)
            return None if holds is None else not holds
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = (self._held(one, scope, depth + 1) for one in (node.left, node.comparators[0]))
            return compared(node.ops[0], left, right)
        return known(self._held(node, scope, depth + 1))

    def _held(self, node: ast.expr, scope: _Scope, depth: int) -> Any:
        """The value of a part of a condition: an option that is not given is None."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._parsed:
            default = self._asked.get(node.attr)
            return self._value(default, self._scope, depth) if default is not None else Open(node.attr)
        return self._value(node, scope, depth)

    def _variable(self, name: str, default: Any) -> Any:
        if (word := self._env.get(name)) is not None and not word.missing:
            return word.text
        return Open(name) if default is None else default
