"""Users who wait for their answers: conversations, tools and clocks followed by hand, how many are carried, and the command."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from jsonschema import Draft202012Validator

import kvplan
from kvplan.cli import run
from kvplan.errors import SpecError
from kvplan.planner.users import most_users
from kvplan.simulate import Lengths, Shape, StepTime, simulate, slots
from kvplan.simulate.record import Goal
from kvplan.simulate.users import Habits, Users, one_after_another
from kvplan.units import parse_seconds

MODEL = "meta-llama/llama-3.1-8b"
POOL = slots(16_000, 16, 4096)
STEP = StepTime(overhead=0.01)


def fixed(n: int) -> Lengths:
    return Lengths("fixed", n)


def habits(
    users: int = 1, turns: int = 1, think: float = 0.0, requests: int = 30, prompt: int = 16, output: int = 17, **more: object
) -> Habits:
    shape = Shape(fixed(prompt), fixed(output), max_tokens=4096, turns=turns, think_seconds=think)
    return Habits(users, shape, requests=requests, **more)


def test_a_conversation_brings_its_past_and_begins_again():
    """16 tokens of text, 17 of answer: prompts of 16, 16 + 17 + 16 = 49 and 82 tokens, and then another conversation."""
    prompts = [request.prompt for request in one_after_another(Users(habits(turns=3, requests=6)))]
    first = prompts.index(16)
    assert prompts[first : first + 4] == [16, 49, 82, 16]


def test_tools_results_go_into_the_next_prompt():
    """Each turn asks twice: 16 tokens, an answer of 4 that calls a tool, its result of 8: 28; then 28 + 4 + 16 = 48, and 60."""
    asked = habits(turns=2, output=4, tool_calls=1, tool_tokens=fixed(8))
    prompts = [request.prompt for request in one_after_another(Users(asked))]
    first = prompts.index(16)
    assert prompts[first : first + 5] == [16, 28, 48, 60, 16]


def test_what_a_turn_finds_is_what_the_turn_before_it_stored():
    """The first turn stores 16 + 16 = 32 tokens, the second 49 + 16 = 65, of which 64 are whole blocks: 96 of 147 prompt tokens."""
    found = simulate(POOL, Users(habits(turns=3)), step_time=STEP)
    assert (found.requests, found.asked_tokens, found.hit_tokens) == (30, 10 * 147, 10 * 96)


def test_one_user_is_as_fast_as_the_steps():
    """17 steps of 10 ms a request, and no time to think: 30 requests take 5.1 s, a first token one step, each further one too."""
    found = simulate(POOL, Users(habits()), step_time=STEP)
    assert found.seconds == pytest.approx(30 * 0.17)
    assert (found.first_token.most, found.per_token.most, found.running.mean) == pytest.approx((0.01, 0.01, 1.0))


def test_many_users_obey_the_law_of_response_times():
    """Throughput of a closed loop is users over think and response time: 50 / (2 + 0.17 + half a step)."""
    found = simulate(POOL, Users(habits(50, think=2.0, requests=3000)), step_time=STEP, max_num_seqs=64)
    assert found.requests / found.seconds == pytest.approx(50 / 2.175, rel=0.03)
    assert found.queued.most == 0


def test_a_user_asks_the_same_of_any_server_and_among_any_others():
    def of_first(users: Users) -> list[tuple[int, int]]:
        n = users.habits.users
        mine = (r for r in one_after_another(users) if (r.content[-1][0] - (1 << 41)) % n == 0)
        return [(request.prompt, request.output) for request in islice(mine, 5)]

    shape = Shape(Lengths("lognormal", 100), Lengths("lognormal", 50), max_tokens=4096, turns=4, think_seconds=3.0)
    few, many = (Users(Habits(n, shape, requests=40 * n)) for n in (2, 7))
    assert of_first(few) == of_first(many)


def test_a_conversation_that_is_too_long_gives_way_to_another():
    """Turns of 1,000 and 500 tokens: the second prompt would have 2,500, the longest request 2,048."""
    shape = Shape(fixed(1000), fixed(500), max_tokens=2048, turns=9)
    requests = list(one_after_another(Users(Habits(1, shape, requests=20))))
    assert {request.prompt for request in requests[1:]} == {1000}
    assert all(request.prompt + request.output <= 2048 for request in requests)


def test_what_a_pool_refuses_is_a_bad_answer_and_the_user_goes_on():
    found = simulate(slots(160, 16, 4096), Users(habits(3, prompt=200, requests=12, think=1.0)), step_time=STEP)
    assert (found.requests, found.rejected, found.good) == (0, 12, 0)


def test_how_many_users_are_carried_by_hand():
    """Four seats, answers of 101 steps of 10 ms, no time to think: seats turn over every 1.01 s. Of eight users four wait one round for
    a first token, 1.02 s; a ninth would wait two, more than 1.5 s."""
    asked = habits(3, prompt=16, output=101, requests=100)
    goal = Goal(1.5, 1.0)

    def tried(users: Users, most_bad: int | None):
        return simulate(POOL, users, step_time=STEP, max_num_seqs=4, goal=goal, most_bad=most_bad)

    carried, at = most_users(tried, asked, 0.99, tried(Users(asked), None))
    assert carried == 8
    assert at is not None
    assert at.good == at.requests
    too_many = asked._replace(users=40)
    assert most_users(tried, too_many, 0.99, tried(Users(too_many), None))[0] == 8


ASKED = [
    "--engine",
    "vllm",
    "--kv-memory",
    "4GiB",
    "--max-model-len",
    "4k",
    "--users",
    "20",
    "--think",
    "5s",
    "--turns",
    "3",
    "--requests",
    "60",
]


def test_the_command_answers_first_and_its_json_obeys_the_schema(capsys):
    assert run(["simulate", MODEL, *ASKED, "--prefixes", "2", "--prefix-tokens", "300"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("it carries 20 users: 100.0 % of their requests get an answer that begins within 2 s")
    assert "20 users, conversations of 3 turns of sharegpt, 5 s to think, 2 system prompts of 300 tokens" in out
    assert run(["simulate", MODEL, *ASKED, "--format", "json", "--size-for", "users=40", "--most", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    Draft202012Validator(kvplan.schema("simulation")).validate(found)
    assert found["users"]["carries"] >= 20
    assert found["users"]["bound"] is False  # no device: steps of a time that is assumed and said
    assert found["sized"]["dp"] in (1, 2, 3)
    assert found["sized"]["n_devices"] is None


def test_a_search_ends_at_so_many_users_and_says_so(capsys, monkeypatch):
    """Twenty users of a cache for hundreds: of more than twice as many nothing is said."""
    monkeypatch.setattr("kvplan.planner.users.MOST_USERS", 16)
    assert run(["simulate", MODEL, *ASKED, "--device", "h100"]) == 0
    out = capsys.readouterr().out
    assert "\nit carries 40 users like these\n" in out
    assert "note: no more than 40 users were tried; it may carry more" in out


def test_devices_are_at_least_so_many():
    """Steps at datasheet rates are a bound, and so is what follows."""
    found = kvplan.simulate(
        MODEL, device="rtx-4090", engine="vllm", max_model_len="2k", think_seconds="5s", requests=40, size_for="users=20"
    )
    assert found.workload["users"] == 20
    assert found.users.bound
    assert (found.sized.n_devices, found.sized.users) == (1, 20)


@pytest.mark.parametrize(
    "extra",
    [
        ["--rate", "2"], ["--samples", "2"], ["--trace", "x.csv"], ["--warm", "3"], ["--size-for", "p99"], ["--tool-calls", "2"],
        ["--tool-tokens", "80"], ["--think", "soon"], ["--users", "0"], ["--first-token", "-1"], ["--size-for", "users=0"],
        ["--router", "cache-aware"], ["--router", "magic", "--dp", "2"],
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_one_error(extra, refused):
    refused("simulate", MODEL, *ASKED, *extra)


def test_tools_belong_to_users(refused):
    assert "belongs to users" in refused("simulate", MODEL, "--kv-memory", "4GiB", "--tool-seconds", "3s")


def test_a_hit_curve_of_users_asks_as_if_answers_came_at_once():
    asked = {"users": 5, "turns": 3, "prompt_lengths": 16, "output_lengths": 17, "think_seconds": 2.0, "requests": 30}
    found = kvplan.hit_curve(MODEL, engine="vllm", max_model_len="4k", **asked)
    assert found.requests == 35
    assert 0.5 < found.most < 0.7  # 96 of 147, but for the first turns looked at


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1.5h", 5400.0), (7, 7.0), ("12", 12.0)])
def test_times_are_written_as_people_write_them(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-3s", "3 weeks", True, float("nan"), None])
def test_what_is_no_time(text):
    with pytest.raises(SpecError):
        parse_seconds(text)
