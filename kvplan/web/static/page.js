"use strict";
// Up to four configurations, each a form, each asked again whenever it changes. The state is in the address, after the #.

const MOST = 4, SETTLES_MS = 200, TYPES_MS = 250, LONGEST_CONFIG = 24000;
const FIRST = { model: "meta-llama/llama-3.1-8b", device: "h100-80gb", context: "8k", batch: "16" };
const cards = document.getElementById("cards");
const template = document.getElementById("card");
const add = document.getElementById("add");
let engines = [];
let own = "";

async function ask(path, body, signal) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  let response;
  try {
    response = await fetch(path, body === undefined ? {} : options);
  } catch {
    throw new Error("the server does not answer; is kvplan serve still running?");
  }
  const found = await response.json();
  if (found.error !== undefined) throw new Error(found.error);
  return found;
}

// A size on a slider's scale, and back.
const scale = (range) => ({ steps: Number(range.dataset.steps), grain: Number(range.dataset.grain) });
function valueOf(range) {
  const { steps, grain } = scale(range);
  return Math.max(1, Math.round(2 ** (Number(range.value) / steps) / grain) * grain);
}
function numberOf(text) {
  const found = /^([\d,_]+)(k|m)?$/i.exec(String(text).trim());
  return found ? Number(found[1].replace(/[,_]/g, "")) * { k: 1024, m: 1048576 }[(found[2] || "").toLowerCase()] || Number(found[1].replace(/[,_]/g, "")) : NaN;
}
function placed(range, text) {
  const n = numberOf(text);
  if (n > 0) range.value = Math.round(Math.log2(n) * scale(range).steps);
  range.setAttribute("aria-valuetext", text ? `${Number.isNaN(n) ? text : n.toLocaleString("en")}` : "as the engine chooses");
}

class Card {
  constructor(state) {
    this.root = template.content.firstElementChild.cloneNode(true);
    this.form = this.root.querySelector("form");
    this.answer = this.root.querySelector(".answer");
    this.verdict = this.root.querySelector(".verdict");
    this.error = this.root.querySelector(".error");
    this.said = this.root.querySelector(".said");
    this.copied = this.root.querySelector(".copied");
    this.config = null;
    this.latest = null;
    this.busy = this.again = false;
    this.timer = 0;
    this.root.card = this;
    this.root.addEventListener("input", (event) => event.target.tagName !== "SELECT" && this.changed(event));
    this.root.addEventListener("change", (event) => event.target.tagName === "SELECT" && this.changed(event));
    this.root.addEventListener("click", (event) => this.clicked(event));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.root.addEventListener("dragover", (event) => { event.preventDefault(); this.root.classList.add("over"); });
    this.root.addEventListener("dragleave", () => this.root.classList.remove("over"));
    this.root.addEventListener("drop", (event) => this.dropped(event));
    this.fill(state);
  }

  named(name) { return this.form.elements.namedItem(name); }
  controls() { return [...this.form.elements].filter((control) => control.name); }

  fill(state) {
    this.config = null;
    if (typeof state.config === "string") {
      try { this.config = JSON.parse(state.config); } catch { this.config = null; }
    }
    this.releases(state.engine || "");
    for (const control of this.controls()) {
      const value = String(state[control.name] ?? "");
      if (control.tagName === "SELECT" && value && ![...control.options].some((one) => one.value === value)) control.add(new Option(value, value));
      control.value = value;
    }
    this.place();
  }

  place(settled = {}) {
    for (const range of this.form.querySelectorAll("input[type=range]")) {
      const field = this.named(range.dataset.name);
      const chosen = field.value || String(settled[range.dataset.name] ?? "");
      field.placeholder = String(settled[range.dataset.name] ?? field.placeholder);
      placed(range, chosen || field.placeholder);
    }
    this.form.querySelector(".config").hidden = this.config === null;
    this.form.querySelector(".config span").textContent = this.config === null ? "" : `config.json: ${(this.config.architectures || ["?"])[0]}`;
    this.named("model").disabled = this.config !== null;
  }

  state() {
    const state = {};
    for (const control of this.controls()) if (control.value.trim()) state[control.name] = control.value.trim();
    if (this.config !== null) {
      delete state.model;
      state.config = JSON.stringify(this.config);
    }
    return state;
  }

  body() {
    const body = {};
    for (const [name, value] of Object.entries(this.state())) {
      const kind = this.named(name)?.dataset?.kind;
      if (name === "config") body.config = this.config;
      else if (kind === "flag") body[name] = ["true", "yes", "on", "1"].includes(value.toLowerCase());
      else if (kind === "options" || (name === "reserve" && value.includes(","))) body[name] = value.split(",").map((one) => one.trim()).filter(Boolean);
      else body[name] = value;
    }
    return body;
  }

  changed(event) {
    const control = event.target;
    if (control.type === "file") { this.read(control.files[0]); return; }
    if (control.name === "target") return;
    if (control.type === "range") {
      this.named(control.dataset.name).value = String(valueOf(control));
      placed(control, this.named(control.dataset.name).value);
    }
    if (control.name === "engine") this.releases(control.value);
    if (control.name === "model") complete(control.value);
    this.update(control.type === "text" ? TYPES_MS : 0);
  }

  update(wait = 0) {
    this.place(this.latest ? this.latest.settled : {});
    remember();
    if (wait) this.later(wait, false);
    else this.ask(false);
  }

  later(ms, advise) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(advise), ms);
  }

  // One question in flight; what changes meanwhile is asked when it is answered. Advice, which takes longer, once the hand rests.
  async ask(advise) {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.busy) {
      this.again = true;
      if (this.advising) this.advising.abort();
      return;
    }
    this.busy = true;
    this.advising = advise ? new AbortController() : null;
    this.answer.setAttribute("aria-busy", "true");
    const body = { ...this.body(), advise };
    if (!body.model && !body.config) {
      this.fail("Name a model, or drop a config.json.");
    } else {
      const began = performance.now();
      try {
        this.show(await ask("page/answer", body, this.advising?.signal));
        this.root.dataset.ms = (performance.now() - began).toFixed(1);
        if (!advise && this.latest.fits === false) this.later(SETTLES_MS, true);
      } catch (error) {
        if (!this.again) this.fail(error.message);
      }
    }
    this.busy = false;
    this.answer.setAttribute("aria-busy", "false");
    if (this.again) { this.again = false; this.ask(false); }
  }

  show(found) {
    const open = [...this.answer.querySelectorAll("details")].map((one) => one.open);
    this.latest = found;
    this.verdict.textContent = found.sentence;
    this.verdict.className = `verdict ${found.verdict}`;
    this.answer.innerHTML = found.html; // every name in it was escaped by who made it (kvplan/report/drawn.py `text`)
    this.answer.querySelectorAll("details").forEach((one, i) => { one.open = open[i] || false; });
    this.answer.querySelectorAll(".advice button").forEach((one, i) => { one.dataset.advice = i; });
    for (const wide of this.answer.querySelectorAll(".wide")) wide.tabIndex = 0;
    this.root.classList.remove("stale");
    this.error.hidden = true;
    this.place(found.settled);
    this.targets(found.settled.engine);
  }

  fail(text) {
    this.error.textContent = text;
    this.error.hidden = false;
    this.root.classList.add("stale");
  }

  clicked(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.advice !== undefined) {
      this.fill({ ...this.state(), ...this.latest.advice[button.dataset.advice] });
      this.update();
    }
    const what = button.dataset.do;
    if (what === "remove") { this.root.remove(); changedCards(); }
    if (what === "forget") { this.config = null; this.update(); }
    if (what === "command") this.copy(this.latest ? this.latest.command : "");
    if (what === "manifest") this.manifest();
  }

  async manifest() {
    const target = this.root.querySelector("[name=target]").value;
    try {
      const found = await ask("page/emit", { ...this.body(), target });
      await this.copy(found.text);
      if (found.warnings.length) this.said.textContent += ` But: ${found.warnings.join("; ")}`;
    } catch (error) {
      this.said.textContent = error.message;
    }
  }

  async copy(text) {
    this.copied.textContent = text;
    this.copied.hidden = false;
    try {
      await navigator.clipboard.writeText(text);
      this.said.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(this.copied);
      this.said.textContent = "Selected; copy it with Ctrl-C.";
    }
  }

  dropped(event) {
    event.preventDefault();
    this.root.classList.remove("over");
    if (event.dataTransfer.files.length) this.read(event.dataTransfer.files[0]);
  }

  async read(file) {
    try {
      const config = JSON.parse(await file.text());
      if (config === null || typeof config !== "object" || Array.isArray(config)) throw new Error("a config is a JSON object");
      this.config = config;
      this.update();
    } catch (error) {
      this.fail(`${file.name}: ${error.message}`);
    }
  }

  releases(engine) {
    const select = this.named("engine_version");
    const found = engines.find((one) => one.engine === engine);
    select.replaceChildren(new Option("newest known", ""), ...(found ? [...found.releases].reverse() : []).map((one) => new Option(one, one)));
  }

  targets(engine) {
    const select = this.root.querySelector("[name=target]");
    const served = engine !== "ideal";
    if (select.dataset.engine !== engine) {
      select.dataset.engine = engine;
      select.replaceChildren(...(served ? [engine, "compose", "k8s"] : []).map((one) => new Option(one, one)));
    }
    this.root.querySelector("[data-do=manifest]").disabled = !served;
  }
}

// Names of models that contain what is typed.
let typed = 0;
async function complete(text) {
  const mine = ++typed;
  const found = await ask(`api/models?text=${encodeURIComponent(text.slice(0, 200))}`).catch(() => []);
  if (mine !== typed || !found.length) return;
  document.getElementById("models").replaceChildren(...found.slice(0, 40).map((one) => new Option("", one.id)));
}

const all = () => [...cards.children].map((one) => one.card);

function remember() {
  const states = all().map((card) => card.state());
  own = "#" + states.map((state) => {
    const kept = (state.config || "").length > LONGEST_CONFIG ? { ...state, config: "" } : state;
    return new URLSearchParams(kept).toString();
  }).join(";");
  history.replaceState(null, "", own);
}

function recalled() {
  const states = location.hash.slice(1).split(";").filter(Boolean).slice(0, MOST);
  return states.length ? states.map((text) => Object.fromEntries(new URLSearchParams(text))) : [FIRST];
}

function changedCards() {
  all().forEach((card, i) => {
    card.root.querySelector("h2").textContent = `Configuration ${i + 1}`;
    card.root.setAttribute("aria-label", `Configuration ${i + 1}`);
    card.root.querySelector("[data-do=remove]").hidden = cards.children.length === 1;
  });
  cards.dataset.cards = cards.children.length;
  add.disabled = cards.children.length >= MOST;
  remember();
}

function start(states) {
  cards.replaceChildren(...states.map((state) => new Card(state).root));
  changedCards();
  for (const card of all()) card.ask(false);
}

add.addEventListener("click", () => {
  const card = new Card(all().at(-1).state());
  cards.append(card.root);
  changedCards();
  card.ask(false);
  card.named("model").focus();
});
window.addEventListener("hashchange", () => { if (location.hash !== own) start(recalled()); });
ask("api/engines").then((found) => { engines = found; }, () => {}).finally(() => start(recalled()));
