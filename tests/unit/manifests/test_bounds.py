"""Small files that ask for much work: each meets a bound that is said; without it they took minutes or for ever."""

from __future__ import annotations

import pytest

from kvplan import api
from kvplan.errors import UnknownName
from kvplan.manifests import Source, budget
from kvplan.manifests.check import check
from kvplan.manifests.command import MAX_NESTED
from kvplan.manifests.read import MAX_COMMENTS, MAX_ENGINES, read
from kvplan.manifests.words import Word, replaced

#: A tenth of the work that one file may make: what is counted against it is the same.
WORK = 50_000
IMAGE = "vllm/vllm-openai:v0.19.0"
SERVICES = "services:\n" + "".join(f'  s{n}: {{image: "{IMAGE}", command: "--model a/b"}}\n' for n in range(200))
ENGINES = f"starts more than {MAX_ENGINES} engines"
POD = f'- {{apiVersion: v1, kind: Pod, spec: {{containers: [{{image: "{IMAGE}", args: ["--model", "a/b"]}}]}}}}\n'
#: Name of the file, its text, and what is said of it.
HOSTILE = {
    "an array that doubles": ("s.sh", 'A=("")\n' + 'A+=("${A[@]}")\n' * 26 + 'vllm serve "${A[@]}"', "grows beyond 50,000 words"),
    "a word that doubles": ("s.sh", "A=xx\n" + "A=$A$A\n" * 40 + "vllm serve $A", "grows beyond 64 KiB"),
    "words of an array": ("s.sh", 'A=("")\n' + 'A+=("${A[@]}")\n' * 12 + "B=(" + '"${A[@]}" ' * 900 + ")\n", "grows beyond 50,000 words"),
    "a script that runs itself": ("s.sh", "cat > f.sh <<E\n" + "sh f.sh\n" * 100 + "E\nsh f.sh\n", "grows beyond 50,000 words"),
    "a long text in many here-documents": (
        "s.sh",
        "A=" + "x" * 60_000 + "\n" + "kubectl apply -f - <<E\na: $A\nE\n" * 5000,
        "grows beyond 50,000 words",
    ),
    "a file that grows": ("s.sh", ("cat >> f <<E\n" + "x" * 90 + "\nE\n") * 8000, "grows beyond"),
    "branches and variables": ("s.sh", "".join(f"A{n}=1\n" for n in range(3000)) + "if a;then b;fi\n" * 3000, "grows beyond 50,000 words"),
    "variables of each command": ("s.sh", "".join(f"export A{n}=1\ncmd\n" for n in range(5000)), "grows beyond 50,000 words"),
    "wrappers of wrappers": ("s.sh", "docker " + "env " * 5000, "a command of more than 1,000 words"),
    "launchers of launchers": ("s.sh", ("docker " + "env " * 990 + "\n") * 8, "no command of an inference engine"),
    "ENV that doubles": ("Dockerfile", f"FROM {IMAGE}\nENV A=xx\n" + "ENV A=$A$A\n" * 40 + 'CMD ["--model", "$A"]\n', "grows beyond"),
    "too many engines": ("s.sh", "vllm serve a/b\n" * 3000, ENGINES),
    "too many pods": ("k.yaml", "apiVersion: v1\nkind: List\nitems:\n" + POD * 1000, ENGINES),
    "too many units": ("a.service", "[Service]\n" + "ExecStart=/usr/bin/vllm serve a/b\n" * 3000, ENGINES),
    "too many comments": ("c.yaml", "# kvplan: zzz\n" * 5000 + SERVICES, f"more than {MAX_COMMENTS} kvplan comments"),
    "unknown options": (
        "s.sh",
        ("vllm serve a/b " + " ".join(f"--max-model-lxn{n}" for n in range(900)) + "\n") * 50,
        "the search for options that vllm does not have",
    ),
    "aliases of a long text": (
        "c.yaml",
        "x: &a |\n" + "  vllm serve a/b\n" * 2000 + "services:\n"
        + "".join(f'  s{n}: {{image: x, command: ["sh", "-c", *a]}}\n' for n in range(500)),
        ENGINES,
    ),
    "lines that are blank": ("s.sh", "\n" * 200_000, "more than 50,000 words"),
    "lines of a folded text": ("swap.yaml", "models:\n  a: {cmd: 'vllm serve a/b" + "\n" * 100_000 + "b'}", "a word that no option takes"),
    "blanks in a Modelfile": ("Modelfile", "FROM a" + " " * 100_000 + "b\nPARAMETER num_ctx 1", "not known"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(HOSTILE))
def test_what_a_small_file_asks_for_is_bounded(name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert budget.MAX_WORK == 10 * WORK
    file, text, told = HOSTILE[name]
    if "grows beyond 50,000" in told:
        monkeypatch.setattr(budget, "MAX_WORK", WORK)
    verdicts = api.check([Source(file, text[: 1 << 20])], device="h100-80gb")
    assert told in verdicts[0].message, verdicts[0].message
    assert len(verdicts) <= MAX_ENGINES
    assert sum(len(v.findings) for v in verdicts) <= 2 * MAX_ENGINES


def test_findings_of_one_engine_are_bounded_and_counted():
    (verdict,) = api.check([Source("s.sh", "vllm serve a/b " + " ".join(f"--zz{n}" for n in range(300)))])
    assert len(verdict.findings) == 101
    assert verdict.findings[-1].message == "and 202 findings more"  # 300 options, the open model and the open device


def test_a_question_is_asked_once_however_many_engines_ask_it():
    asked = []

    def ask(model, **question):
        asked.append(model)
        raise UnknownName("model", model, [])

    check([Source("s.sh", "vllm serve a/b\n" * 100 + "vllm serve a/c\n" * 100)], ask, device="h100-80gb")
    assert asked == ["a/b", "a/c"]


def test_a_bad_comment_is_said_once():
    verdicts = api.check([Source("c.yaml", "# kvplan: zzz q\n" + SERVICES)])
    assert [f.message[:5] for v in verdicts for f in v.findings if f.rule == "bad-comment"] == ["'zzz'", "'q' i"]


def test_a_manifest_as_people_write_them_is_far_from_every_bound():
    """100 services with 30 options each, and 100 comments."""
    options = " ".join(f"--max-model-len {8192 + n}" for n in range(30))
    text = "services:\n" + "".join(
        f'  s{n}:  # kvplan: device=h100\n    {{image: "{IMAGE}", command: "--model a/b {options}"}}\n' for n in range(100)
    )
    assert len(read(text, "c.yaml")) == 100
    assert MAX_NESTED == 4


def test_line_breaks_move_with_what_is_filled_in():
    import re

    word = Word("a $X\nb $X\nc", breaks=((0, 1), (5, 2), (10, 3)))
    made = replaced(re.compile(r"\$X"), lambda m: "long", word)
    assert made.text == "a long\nb long\nc"
    assert made.breaks == ((0, 1), (7, 2), (14, 3))
