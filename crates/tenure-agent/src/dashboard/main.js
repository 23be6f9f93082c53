// The page: what it asks of the agent when, and what it shows.

import { Agent, Refused, Silent } from "./agent.js";
import { Details } from "./details.js";
import { Fleets, fleets as fleets_of } from "./fleets.js";
import { List } from "./list.js";
import { Records, holders, kind, left, renewals } from "./records.js";
import { clock, count, make, shown } from "./words.js";

const at = (id) => document.getElementById(id);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Between two readings of everything, however little there is. */
const SOONEST = 1000;
/** Between two tries to listen, where many listen already. */
const LONGEST = 10_000;
/** What everything may cost of the time, as one part in so many. */
const SHARE = 20;
/** More keys that change at once are read with all others. */
const MANY = 30;
const TOKEN = "tenure.token";
const KEPT = { price: "tenure.price", prefixes: "tenure.elections" };

const VIEWS = {
  all: { name: "All", has: () => true },
  leases: { name: "Leases", has: (row) => kind(row) === "lease" },
  elections: {
    name: "Elections",
    about: "Who leads, of this agent's clients, and wherever else keys begin with one of these words:",
    has: (row) => row.is_election || (kind(row) === "lease" && words().some((word) => row.key.startsWith(word))),
  },
  semaphores: { name: "Semaphores", has: (row) => kind(row) === "semaphore" },
  sections: { name: "Sections", has: (row) => kind(row) === "section" },
  fleets: { name: "Fleets", about: "A square is a unit. What has just moved is blue. The same as a list, for the keyboard: Units.", has: (row) => /^fleet\/[^/]+\/(unit\/|worker\/|board$)/.test(row.key) },
  units: { name: "Units", has: (row) => kind(row) === "unit" },
  sessions: { name: "Sessions", has: (row) => kind(row) === "session" },
  changes: { name: "Changes", heads: { state: "change", left: "at" }, about: "What this page and its agent have seen, the newest first. Of others' leases the agent sees what happens while a page is open. The store keeps no history." },
};
const COLUMNS = { key: "key", state: "state", fence: "fence", holder: "holder", left: "time left" };

/** What keys of elections begin with, by the user's word: their records are those of leases. */
const words = () => at("prefixes").value.split(/\s+/).filter((word) => word !== "");

let agent = new Agent(sessionStorage.getItem(TOKEN));
let view = "all";
let may = "read";
let [is_old, wake] = [false, () => {}];
/** Whether something has changed that no event tells of: all is read at the next turn, at any pace. */
let is_behind = false;
/** Whether what the agent has seen before is told. */
let knows_past = false;
const pending = new Set();
const records = new Records(() => draw_soon());
const details = new Details(at("details"), {
  act: async (action, row, worker) => {
    const asked = action === "move" ? { fence: row.fence, worker: worker || null } : { fence: row.fence };
    const begun = await agent.post(`/v1/records/${encodeURIComponent(row.key)}/${action}`, asked);
    records.note(row.key, `${action} by this page`, row);
    wake();
    return begun;
  },
  may: () => may === "full",
  workers: (row) => [...(fleets_of(records.rows.values()).get(row.key.split("/")[1])?.workers ?? [])].filter(([, session]) => session.state === "held").map(([worker]) => worker),
});
const fleets = new Fleets(at("map"), { open, moved: (key) => records.moved.get(key) ?? 0 });
const list = new List(at("list"), { columns: Object.keys(COLUMNS), fill, open });

function fill(item) {
  if (item.what) {
    const what = item.reason ? `${item.what}: ${item.reason}` : item.what;
    return { texts: [item.key, what, String(item.fence ?? ""), item.holder, clock(item.at)].map(shown) };
  }
  const state = item.semaphore && item.state === "held" ? shared(item.semaphore) : item.state;
  return { texts: [shown(item.key), state, String(item.fence ?? ""), shown(holders(item)), left(item)], state: item.state };
}

/** How many of a semaphore's permits are taken. */
function shared({ permits, holders, queue }) {
  const taken = holders.reduce((sum, claim) => sum + (claim.permits ?? permits), 0);
  return `held ${taken}/${permits}${queue.length > 0 ? `, ${queue.length} wait` : ""}`;
}

function open(item) {
  details.open(item.key);
  draw_details();
}

function draw_details() {
  if (details.key !== null) details.draw(records.rows.get(details.key) ?? null, records.changes);
}

let will_draw = false;

/** Once, however much has changed. */
function draw_soon() {
  if (will_draw) return;
  will_draw = true;
  requestAnimationFrame(() => {
    will_draw = false;
    draw();
  });
}

function draw() {
  const text = at("search").value.toLowerCase();
  const fits = (item) => text === "" || item.key.toLowerCase().includes(text) || holders(item).toLowerCase().includes(text);
  let items;
  if (view === "changes") {
    items = records.changes.filter((change) => text === "" || `${change.key} ${change.holder}`.toLowerCase().includes(text));
  } else {
    const wants = (row) => (row.state !== "vacant" || at("all").checked) && VIEWS[view].has(row) && fits(row);
    items = [...records.rows.values()].filter(wants);
    // As the store has them.
    items.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  }
  const is_map = view === "fleets";
  [at("map").hidden, at("list").hidden, at("head").hidden] = [!is_map, is_map, is_map];
  if (is_map) fleets.show([...records.rows.values()].filter(VIEWS.fleets.has), fits);
  else list.show(items);
  draw_cost();
  const read = records.read ? `, as of ${clock(records.read)}` : "";
  const of = view === "changes" ? count(items.length, "change") : `${count(items.length, "record")} of ${count(records.rows.size, "record")}`;
  at("count").textContent = of + read;
  at("head").replaceChildren(...Object.entries(COLUMNS).map(([name, text]) => make("span", { class: name, text: VIEWS[view].heads?.[name] ?? text })));
  at("about").textContent = VIEWS[view].about ?? "";
  at("prefixes").hidden = view !== "elections";
  at("list").toggleAttribute("data-old", is_old);
  draw_details();
}

/** What renewals cost, at the price that is stated. */
function draw_cost() {
  const writes = renewals(records.rows.values());
  const price = Number(at("price").value);
  const cost = at("price").value === "" ? "" : `: $${((writes / 1e6) * price).toFixed(2)} a day`;
  at("cost").textContent = `at rest, renewals are ${count(Math.round(writes), "write")} a day${cost}`;
}

/** How the agent is. Anything but `live` makes what is shown old. */
function status(is, text) {
  at("status").dataset.is = is;
  at("status").textContent = text;
  const old = is === "dead" || is === "store";
  if (old !== is_old) {
    is_old = old;
    draw();
  }
}

function failed(error) {
  if (error instanceof Refused && error.status === 401) return enter(error.code === "wrong_token" ? error.message : "");
  if (error instanceof Refused && error.status < 500) return status("store", error.message);
  const since = records.read ? `; what is shown is of ${clock(records.read)}` : "";
  if (error instanceof Refused) return status("store", `the store does not answer: ${shown(error.message)}${since}`);
  if (error instanceof Silent) return status("dead", `the agent does not answer${since}`);
  throw error;
}

async function overview() {
  const told = await agent.get("/v1/overview");
  const { store } = told;
  may = told.may;
  const health = store.problem ? `fails: ${shown(store.problem)}` : `reads in ${(store.read_us / 1000).toFixed(1)} ms`;
  at("store").textContent = `${shown(store.id)} ${health}`;
  at("may").textContent = `${count(told.clients, "lease")} of clients; this token may ${told.may === "full" ? "do all" : "look"}`;
  if (told.is_stopping) status("stopping", "the agent is being stopped, and prolongs nothing any more");
  else if (!store.answers) failed(new Refused(503, { message: store.problem }));
  else status("live", "live");
  return store.answers;
}

function enter(reason) {
  sessionStorage.removeItem(TOKEN);
  [at("main").hidden, at("enter").hidden, at("leave").hidden] = [true, false, true];
  at("refused").textContent = reason;
  status("unknown", "a token is asked for");
  at("token").focus();
  throw new Refused(401, { message: reason });
}

/** One turn: all that can be known. */
async function look() {
  if (!(await overview())) return SOONEST;
  [at("main").hidden, at("enter").hidden] = [false, true];
  at("leave").hidden = !sessionStorage.getItem(TOKEN);
  const pace = at("pace").value;
  if (pace === "0" && records.read && !is_behind) return SOONEST * 5;
  // What changes from here on may not be in what is read.
  is_behind = false;
  const took = await records.refresh(agent);
  if (!knows_past) {
    records.recall(await agent.tenures());
    knows_past = true;
  }
  return Math.max(pace === "auto" ? SHARE * took : Number(pace), SOONEST);
}

/** All is to be read once, as soon as may be. */
function fall_behind() {
  is_behind = true;
  wake();
}

/** What events tell of is read by itself. */
function heard(event) {
  if (event.event === "stopping") return wake();
  if (["missed", "watching"].includes(event.event)) return fall_behind();
  if (event.event === "changed") return records.take(event.leases ?? [], event.gone ?? []);
  const reasons = { lost: "lost", lapsed: "no beat came in time", exited: "its client has ended", stopped: "its agent is being stopped", asked: "asked to give it up" };
  if (event.event in reasons) records.note(event.key, reasons[event.event], { fence: event.fence }, event.reason);
  pending.add(event.key);
  if (pending.size === 1) setTimeout(read_pending, 50);
}

async function read_pending() {
  const keys = [...pending];
  pending.clear();
  if (keys.length > MANY) return fall_behind();
  try {
    for (const key of keys) await records.touch(agent, key);
  } catch {
    // The next turn tells what is wrong.
    fall_behind();
  }
}

const visible = () =>
  new Promise((done) => {
    if (!document.hidden) return done();
    document.addEventListener("visibilitychange", () => done(), { once: true });
  });

/** Turn after turn, until a token is asked for. */
async function turns() {
  for (;;) {
    await visible();
    let pause = SOONEST;
    try {
      pause = await look();
    } catch (error) {
      is_behind = true;
      try {
        failed(error);
      } catch {
        return;
      }
    }
    // What came while all was read waits for no pace, but for a moment.
    if (is_behind) pause = SOONEST;
    await Promise.race([sleep(pause), new Promise((done) => (wake = done))]);
  }
}

/** Listens for as long as the page is looked at: each listener is one of few. */
async function listen(signal) {
  let pause = SOONEST;
  const opened = () => {
    pause = SOONEST;
    fall_behind();
  };
  while (!signal.aborted) {
    await visible();
    const hide = new AbortController();
    const hidden = () => document.hidden && hide.abort();
    document.addEventListener("visibilitychange", hidden);
    try {
      await agent.listen(AbortSignal.any([signal, hide.signal]), opened, heard);
      // It has ended: with the agent, it may be.
      fall_behind();
    } catch {
      // The turns find out what it is.
      pause = Math.min(2 * pause, LONGEST);
    }
    document.removeEventListener("visibilitychange", hidden);
    await sleep(pause);
  }
}

async function begin() {
  const stop = new AbortController();
  listen(stop.signal);
  await turns();
  stop.abort();
}

for (const [name, { name: text }] of Object.entries(VIEWS)) {
  const tab = make("button", { type: "button", role: "tab", "aria-selected": String(name === view), "aria-controls": "list", text });
  tab.addEventListener("click", () => {
    view = name;
    for (const other of at("views").children) other.setAttribute("aria-selected", String(other === tab));
    draw();
  });
  at("views").append(tab);
}
at("search").addEventListener("input", draw);
for (const [id, name] of Object.entries(KEPT)) {
  at(id).value = localStorage.getItem(name) ?? "";
  at(id).addEventListener("input", () => {
    localStorage.setItem(name, at(id).value);
    draw();
  });
}
at("all").addEventListener("change", draw);
at("pace").addEventListener("change", () => wake());
at("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, at("token").value.trim());
  at("token").value = "";
  agent = new Agent(sessionStorage.getItem(TOKEN));
  begin();
});
at("leave").addEventListener("click", () => {
  sessionStorage.removeItem(TOKEN);
  location.reload();
});
document.addEventListener("keydown", (event) => {
  const is_typing = event.target.closest("input, select, dialog");
  if (event.key !== "/" || is_typing || at("main").hidden) return;
  event.preventDefault();
  at("search").focus();
});
// Time goes on.
setInterval(() => {
  list.draw();
  fleets.draw();
  draw_details();
}, 1000);
begin();
