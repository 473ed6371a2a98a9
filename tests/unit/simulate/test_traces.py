"""Public trace formats, on samples written here, and what is said of broken ones."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

import kvplan
from kvplan.errors import SpecError, UnknownName
from kvplan.simulate import Arrivals, Request, read
from kvplan.simulate.traces import detect, timed

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,0,417,API log
"""
MOONCAKE = [
    {"timestamp": 0, "input_length": 1100, "output_length": 10, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 700, "output_length": 5, "hash_ids": [0, 7]},
]


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def test_azure():
    first, second = read(lines(AZURE), "azure", "t.csv")
    assert (first.arrival, first.prompt, first.output) == (0.0, 374, 44)
    assert second.arrival == pytest.approx(4.314579, abs=1e-6)


def test_burstgpt_leaves_out_failures():
    assert list(read(lines(BURST), "burstgpt", "t.csv")) == [Request(0.0, 472, 18), Request(40.0, 1087, 230)]


def test_mooncake_shares_blocks_of_512():
    first, second = read([json.dumps(row) for row in MOONCAKE], "mooncake", "t.jsonl")
    assert second.arrival == 3.0
    assert first.content[0] == second.content[0]
    assert first.content[0][1] == 512
    assert first.content[1][0] != second.content[1][0]
    assert first.content[-1][1] == 1100


def test_sharegpt_turns_bring_the_past():
    talk = [{"id": "a", "conversations": [{"from": "human", "value": "x" * 8}, {"from": "gpt", "value": "y" * 40},
            {"from": "human", "value": "z" * 4}, {"from": "gpt", "value": "w" * 4}]}]  # fmt: skip
    found = list(read(lines(json.dumps(talk, indent=1)), "sharegpt", "t.json"))
    assert [(r.prompt, r.output) for r in found] == [(2, 10), (13, 1)]
    assert found[0].content[0][0] == found[1].content[0][0]
    assert [r.arrival for r in timed(found, Arrivals(2.0, cv=0))] == [0.5, 1.0]


@pytest.mark.parametrize(
    "text",
    ["arrival,prompt,output\n1,10,2\n3,20,4\n", '{"arrival": 1, "prompt": 10, "output": 2}\n{"arrival": 3, "prompt": 20, "output": 4}\n'],
)
def test_plain_lengths(text):
    assert list(read(lines(text), "lengths", "t")) == [Request(0.0, 10, 2), Request(2.0, 20, 4)]


BROKEN = [
    ("azure", "TIMESTAMP,ContextTokens\n", "line 1: the header lacks generatedtokens"),
    ("azure", "", "line 1: the header lacks"),
    ("azure", AZURE + "yesterday,1,1\n", "line 4: TIMESTAMP 'yesterday' is no date"),
    ("azure", AZURE + "2023-11-16 18:15:51,-1,1\n", "line 4: ContextTokens is '-1'"),
    ("azure", AZURE + "2023-11-16 17:15:51,1,1\n", "line 4: is earlier"),
    ("azure", AZURE + "2023-11-16 18:15:51,1\n", "line 4: 2 fields, the header has 3"),
    ("burstgpt", BURST + "200,x,1.5,2,3,y\n", "line 5: Request tokens is '1.5', not a whole number"),
    ("burstgpt", BURST + "nan,x,1,2,3,y\n", "line 5: Timestamp is 'nan'"),
    ("mooncake", "{}\n", "line 1: input_length is 'None'"),
    ("mooncake", "[1]\n", "line 1: is no JSON object"),
    ("mooncake", '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [true]}\n', "line 1: hash_ids"),
    ("mooncake", '\n{"timestamp"\n', "line 2: is no JSON"),
    ("sharegpt", '[\n{"a": 1,}\n]', "line 2: is no JSON"),
    ("sharegpt", "{}", "line 1: is no JSON array"),
    ("sharegpt", "[{}]", "conversation 0"),
    ("lengths", "prompt,output\n1,2\n3,inf\n", "line 3: output is 'inf'"),
]


@pytest.mark.parametrize(("name", "text", "said"), BROKEN)
def test_broken_traces_say_where(name, text, said):
    with pytest.raises(SpecError) as error:
        list(read(lines(text), name, "t"))
    assert said in str(error.value)


@pytest.mark.parametrize("ids", [[0] * 4, list(range(1000))])
def test_more_blocks_than_the_prompt_has_are_refused(ids):
    line = json.dumps({"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": ids})
    with pytest.raises(SpecError, match="hash_ids are more than one for each 512 of 1,024 tokens"):
        list(read([line], "mooncake", "x"))


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "1e999", "-1", "NaN"])
def test_numbers_that_are_none(number):
    with pytest.raises(SpecError, match="line 1"):
        list(read([f'{{"timestamp": 0, "input_length": {number}, "output_length": 1}}'], "mooncake", "x"))
    with pytest.raises(SpecError, match="line 1"):
        list(read([f'[{{"conversations": [{{"from": "human", "value": {number}}}]}}]'], "sharegpt", "x"))


def test_many_small_items_behind_a_large_one_take_linear_time():
    large = json.dumps({"conversations": [{"from": "human", "value": "x" * 4_000_000}]})
    small = ",".join('{"conversations": []}' for _ in range(100_000))
    text = f"[{large},{small}]"
    assert list(read((text[i : i + 65536] for i in range(0, len(text), 65536)), "sharegpt", "x")) == []


def test_a_packed_line_without_end_is_refused_within_little_memory(tmp_path):
    """20 KB that unpack to 20 MB once took 1.4 GiB."""
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [' + b"0," * 10_000_000))
    tracemalloc.start()
    with pytest.raises(SpecError, match="line 1: longer than 1,048,576 characters"):
        kvplan.simulate("meta-llama/llama-3.1-8b", device="h100", trace=str(path), trace_format="mooncake")
    assert tracemalloc.get_traced_memory()[1] < 60 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("cut", [30, 5])
def test_a_packed_trace_that_is_cut_off_is_said(tmp_path, cut):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"arrival,prompt,output\n" + b"".join(b"%d,7,2\n" % n for n in range(300)))[:-cut])
    with pytest.raises(SpecError, match="gzip file that is broken or cut off"):
        kvplan.simulate("meta-llama/llama-3.1-8b", device="h100", trace=str(path))


def test_unknown_format():
    with pytest.raises(UnknownName):
        read([], "azur", "t")


def talks(n: int) -> str:
    return json.dumps([{"conversations": [{"from": "human", "value": "x" * 40}, {"from": "gpt", "value": "y" * 80}]}] * n, indent=1)


def test_sharegpt_is_streamed_from_pieces_of_any_size():
    text = talks(50)
    for size in (1, 7, 1000, len(text)):
        pieces = (text[i : i + size] for i in range(0, len(text), size))
        assert [(r.prompt, r.output) for r in read(pieces, "sharegpt", "t.json")] == [(10, 20)] * 50


def test_sharegpt_holds_one_conversation_at_a_time():
    """The second conversation is asked for before the rest of the file has been read."""
    text, given = talks(1000), []

    def pieces():
        for i in range(0, len(text), 100):
            given.append(i)
            yield text[i : i + 100]

    found = read(pieces(), "sharegpt", "t.json")
    assert next(found)
    assert next(found)
    assert len(given) < 20


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[\n{\n]", 3), ("[\n{\"conversations\": []}\n{\"conversations\": []}]", 3), ("[", 1), ("", 1), ("[\n\n{\"conversations\": 3}]", 3),
        ("[{\"conversations\": []},\n{\"conversations\": [{\"value\": \"never ends", 2), ("[\n\n\nnonsense" + " " * 100 + "]", 4),
        ("[" * 100_000, 1),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_conversation_names_its_line(text, line):
    with pytest.raises(SpecError, match=f"line {line}: "):
        list(read([text], "sharegpt", "t.json"))


@pytest.mark.parametrize(
    ("beginning", "name"),
    [
        (AZURE, "azure"), (BURST, "burstgpt"), (json.dumps(MOONCAKE[0]), "mooncake"), ("\ufeff[\n {", "sharegpt"),
        ("arrival,prompt,output\n0,1,2", "lengths"), ('{"prompt": 1, "output": 2}', "lengths"),
    ],
)  # fmt: skip
def test_formats_are_seen_in_the_first_line(beginning, name):
    assert detect(beginning, "t") == name


def test_no_format_is_guessed():
    with pytest.raises(SpecError, match="trace_format"):
        detect("a,b,c\n1,2,3", "t.csv")


def test_a_long_csv_is_never_held():
    """The reader takes a row when a request is asked for, and no more."""
    rows = iter(["prompt,output\n", *["5,6\n"] * 3])
    found = read(rows, "lengths", "t.csv")
    next(found)
    assert len(list(rows)) == 2
