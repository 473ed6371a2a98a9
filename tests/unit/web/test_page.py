"""The page in a real browser: headless Chromium, where it is installed with its driver. Nothing here waits for a fixed time."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

for module in ("starlette", "uvicorn", "selenium"):
    pytest.importorskip(module, reason=f"{module} is not installed")
BROWSER, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
if not (BROWSER and DRIVER):
    pytest.skip("no Chromium with its driver here (Debian: apt-get install chromium chromium-driver)", allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

ROOT = Path(__file__).parents[3]
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--window-size=1280,1000")  # fmt: skip
HOSTILE = "<img src=//x.example onerror=document.title='owned'>"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 4096, "_name_or_path": HOSTILE,
}  # fmt: skip


@pytest.fixture(scope="module")
def address():
    """Where `kvplan serve` says that it is; it ends well when it is interrupted."""
    command = [sys.executable, "-m", "kvplan", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        line = server.stderr.readline()
        yield re.match(r"(http://127\.0\.0\.1:\d+/) ", line)[1]
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
        assert server.stderr.read() == ""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


class Page:
    """One page, as its reader sees and uses it."""

    def __init__(self, browser, address: str) -> None:
        self.browser, self.address = browser, address

    def open(self, state: str = "") -> None:
        self.browser.get("about:blank")
        self.browser.get(self.address + state)
        self.answered()

    def card(self, n: int = 0):
        return self.browser.find_elements(By.CSS_SELECTOR, ".card")[n]

    def field(self, name: str, n: int = 0):
        return self.card(n).find_element(By.CSS_SELECTOR, f"[name={name}]")

    def until(self, condition):
        return WebDriverWait(self.browser, 30, poll_frequency=0.02).until(lambda _: condition())

    def answered(self, begins: str = "", n: int = 0) -> str:
        """The sentence of a card, once nothing is asked any more and it begins so."""
        script = "const c = document.querySelectorAll('.card')[arguments[0]]; if (!c || c.card.busy || c.card.timer) return '';"
        script += "return (c.querySelector('.error').hidden ? c.querySelector('.verdict') : c.querySelector('.error')).textContent"
        return self.until(lambda: (said := self.browser.execute_script(script, n)) and said.startswith(begins) and said)

    def type(self, name: str, text: str) -> None:
        field = self.field(name)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text, Keys.TAB)

    def press(self, selector: str, n: int = 0) -> None:
        self.card(n).find_element(By.CSS_SELECTOR, selector).click()

    def faults(self) -> list[str]:
        """What the console complained of, and requests to another host."""
        said = [one["message"] for one in self.browser.get_log("browser") if one["level"] in ("SEVERE", "WARNING")]
        events = [json.loads(one["message"])["message"] for one in self.browser.get_log("performance")]
        asked = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        urls = [one["request"]["url"] for one in asked if one["documentURL"].startswith(self.address)]
        return said + [url for url in urls if not url.startswith((self.address, "data:"))]  # data: Chromium's own, of its controls


@pytest.fixture
def page(browser, address):
    """Whatever a test does: no complaint, and no request elsewhere."""
    made = Page(browser, address)
    made.faults()
    yield made
    assert made.faults() == []


def test_from_a_model_to_a_command_that_fits(page):
    page.open()
    page.type("model", "qwen/qwen3-14b")
    assert "16 requests of 8,192 tokens fit on 1 x H100 80GB" in page.answered("Yes")
    slider = page.card().find_element(By.CSS_SELECTOR, "[data-name=batch]")
    hand = ActionChains(page.browser, duration=20).click_and_hold(slider)
    for _ in range(slider.size["width"] // 2 // 6):
        hand.perform()
        if not page.answered().startswith("Yes"):
            break
        hand = ActionChains(page.browser, duration=20).move_by_offset(6, 0)
    ActionChains(page.browser).release().perform()
    advice = page.until(lambda: page.card().find_elements(By.CSS_SELECTOR, ".advice button"))
    assert advice[0].text in page.answered("No")  # the smallest change
    page.press(".advice button")
    sentence = page.answered("Yes")

    page.browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    page.press("[data-do=command]")
    page.until(lambda: page.card().find_element(By.CSS_SELECTOR, ".said").text == "Copied.")
    copied = page.browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    shown = subprocess.run([sys.executable, "-m", *copied.split()], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert " ".join(shown.partition("\n\n")[0].split()) == sentence

    page.press("[data-do=manifest]")
    page.until(lambda: "exec vllm serve Qwen/Qwen3-14B" in page.card().find_element(By.CSS_SELECTOR, ".copied").text)
    page.browser.refresh()
    assert page.answered("Yes") == sentence


def test_four_side_by_side_and_the_keyboard_alone(page):
    page.open("#model=meta-llama%2Fllama-3.1-8b&device=24GiB&engine=ideal&context=8k&batch=4")
    for n in range(1, 4):
        page.browser.find_element(By.ID, "add").send_keys(Keys.ENTER)
        page.until(lambda n=n: len(page.browser.find_elements(By.CSS_SELECTOR, ".card")) == n + 1)
    assert not page.browser.find_element(By.ID, "add").is_enabled()
    Select(page.field("kv_dtype", 3)).select_by_value("fp8")
    page.card(2).find_element(By.CSS_SELECTOR, "[data-name=context]").send_keys(Keys.END)
    page.field("device", 1).send_keys(Keys.CONTROL, "a")
    page.field("device", 1).send_keys("no-such-gpu")
    # 4 x 1,048,576 tokens of 131,072 B are 512 GiB, the weights (8,030,261,248 parameters of 2 B) 14.96 GiB, less the 24 GiB
    assert "lacks 503.0 GiB" in page.answered("No", 2)
    assert "unknown device" in page.answered("question", 1)
    # in fp8 half the bytes a token: twice as many fit in what the weights leave
    most = [int(re.search(r"up to (\d+) at once", page.answered("Yes", n))[1]) for n in (0, 3)]
    assert most[1] in (2 * most[0], 2 * most[0] + 1)
    states = page.browser.execute_script("return location.hash")
    page.open(states)
    assert "unknown device" in page.answered("question", 1)
    page.press("[data-do=remove]", 1)
    assert len(page.browser.find_elements(By.CSS_SELECTOR, ".card")) == 3


def test_a_dropped_config_with_a_hostile_name_is_text(page, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    page.open("#device=24GiB&engine=ideal&context=100")
    assert page.answered("Name a model")
    page.card().find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(path))
    assert page.answered("Yes")
    page.browser.refresh()
    assert page.answered("Yes")
    assert "onerror=" in page.card().text
    assert not page.card().find_elements(By.CSS_SELECTOR, "img")
    assert page.browser.title == "kvplan"
    page.press("[data-do=forget]")
    assert page.answered("Name a model")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_both_lights(page, scheme):
    tall = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", tall)
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    try:
        page.open("#model=meta-llama%2Fllama-3.1-70b&device=8xH100&context=8k;model=deepseek-ai%2Fdeepseek-v3&device=h200&tp=8")
        page.answered("", 1)
        for summary in page.browser.find_elements(By.CSS_SELECTOR, "summary"):
            summary.click()
        assert page.browser.execute_script("return document.documentElement.scrollWidth") <= 390
        colour = page.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", colour)[:3])) < 200) == (scheme == "dark")
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
