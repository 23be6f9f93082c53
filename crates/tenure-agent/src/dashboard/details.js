// One record in full.

import { Silent } from "./agent.js";
import { bar } from "./fleets.js";
import { holders, kind, left } from "./records.js";
import { brief, clock, make, shown } from "./words.js";

const is_held = (row) => row.holder !== undefined && row.state === "held";
const all = (row) => (kind(row) === "session" ? " This is a session: all that its process holds goes with it." : "");

/** What may be done to a record, and what is asked before. */
const ACTIONS = {
  revoke: {
    name: "Revoke…",
    fits: is_held,
    asks: (row) => `Tell ${shown(row.holder)} to stop and give it up?${all(row)}`,
    said: "Told:",
  },
  drain: {
    name: "Drain…",
    fits: (row) => is_held(row) && row.key.startsWith("fleet/") && kind(row) === "session",
    asks: (row) => `Ask ${shown(row.holder)} to pass on all of its units and to stop?`,
    said: "Asked:",
  },
  release: {
    name: "Release by force…",
    fits: (row) => row.holder !== undefined,
    asks: (row) => `Take it from ${shown(row.holder)}, once that one can't be at work any more?${all(row)}`,
    said: "It is taken from",
  },
  move: {
    name: "Move…",
    fits: (row) => kind(row) === "unit",
    asks: () => "Pin it to a worker, which is to have it as long as it lives?",
    chooses: true,
  },
};

export class Details {
  #dialog;
  #body = make("div");
  #title = make("h2", { id: "details-key" });
  #buttons = {};
  #said = make("p", { class: "said", role: "status" });
  #question = make("p", { class: "said" });
  #sure = make("button", { type: "button", "data-is": "strong", text: "Yes, do it" });
  #no = make("button", { type: "button", text: "No" });
  #choice = make("select", { "aria-label": "Worker" });
  #ask = make("div", { class: "ask", role: "alertdialog", "aria-label": "Are you sure?", hidden: true }, this.#question, this.#choice, " ", this.#sure, " ", this.#no);
  #key = null;
  #row = null;
  #may;
  #workers;

  /**
   * `act(action, row, worker)` asks the agent, and tells what was begun. `may()` is whether the token allows that. `workers(row)` are
   * those that a unit can go to.
   */
  constructor(dialog, { act, may, workers }) {
    [this.#dialog, this.#may, this.#workers] = [dialog, may, workers];
    const close = make("button", { type: "button", text: "Close" });
    close.addEventListener("click", () => dialog.close());
    const actions = make("div", { class: "actions" }, close);
    for (const [action, { name }] of Object.entries(ACTIONS)) {
      const button = make("button", { type: "button", text: name, hidden: true });
      button.addEventListener("click", () => this.#asked(action, act));
      this.#buttons[action] = button;
      actions.append(button);
    }
    this.#no.addEventListener("click", () => (this.#ask.hidden = true));
    dialog.append(this.#title, this.#body, actions, this.#ask, this.#said);
    // It is told later than it happens: another record may be shown by then.
    dialog.addEventListener("close", () => {
      if (!dialog.open) this.#key = null;
    });
  }

  /** What is meant is what was shown when the question was asked: where another tenure has begun since, the agent refuses. */
  #asked(action, act) {
    const row = this.#row;
    this.#question.textContent = ACTIONS[action].asks(row);
    this.#choice.hidden = !ACTIONS[action].chooses;
    const choices = this.#workers(row).map((worker) => make("option", { value: worker, text: shown(worker) }));
    this.#choice.replaceChildren(...choices, make("option", { value: "", text: "nobody: wherever the plan has it" }));
    this.#ask.hidden = false;
    this.#sure.onclick = async () => {
      // Another record may be shown by the time that there is an answer.
      const say = (text) => {
        if (this.#key === row.key) this.#said.textContent = text;
      };
      this.#ask.hidden = true;
      say("…");
      try {
        const begun = await act(action, row, this.#choice.value);
        say(
          begun.holder === undefined
            ? `Pinned to ${shown(begun.pinned_to ?? "nobody")}.`
            : `${ACTIONS[action].said} ${shown(begun.holder)}, within ${brief(begun.within_ms)}.`,
        );
      } catch (error) {
        // A request that was not answered may have been heard.
        say(
          error instanceof Silent
            ? "No answer: it may have been done; look at the record."
            : `Not done: ${shown(error.message)}`,
        );
      }
    };
    this.#no.focus();
  }

  /** Which record is shown, or null. */
  get key() {
    return this.#key;
  }

  open(key) {
    this.#key = key;
    this.#title.textContent = shown(key);
    this.#said.textContent = "";
    this.#ask.hidden = true;
    this.#dialog.showModal();
  }

  /** `row` is null when there is no such record (any more). */
  draw(row, changes) {
    this.#row = row;
    for (const [action, button] of Object.entries(this.#buttons)) {
      button.hidden = !row || !this.#may() || !ACTIONS[action].fits(row);
    }
    const parts = row ? [fields(row), ...claims(row)] : [make("p", { text: "There is no record of it now." })];
    const seen = changes.filter((change) => change.key === this.#key);
    parts.push(make("h3", { text: "Seen by this page and its agent" }));
    parts.push(seen.length > 0 ? make("ol", {}, ...seen.map(line)) : make("p", { text: "No change." }));
    this.#body.replaceChildren(...parts);
  }
}

function fields(row) {
  const pairs = [
    ["is a", kind(row)],
    ["state", row.state],
    ["problem", row.problem],
    ["fence", row.fence],
    ["holder", holders(row)],
    ["since", row.since],
    ["time left", left(row)],
    ["agent", row.is_here ? "a client of this agent has it" : undefined],
    ...Object.entries(row.about ?? {}),
  ];
  const filled = pairs.filter(([, value]) => value !== undefined && value !== "");
  const parts = filled.flatMap(([name, value]) => [make("dt", { text: shown(name) }), make("dd", { text: shown(value) })]);
  return make("dl", {}, ...parts);
}

/** Who has what of a semaphore or a section, and who waits. */
function claims(row) {
  const parts = [];
  const list = (title, lines) => {
    parts.push(make("h3", { text: title }));
    parts.push(make("ol", {}, ...lines.map((text) => make("li", { text: shown(text) }))));
  };
  const permits = (claim) => (claim.permits === undefined ? "all permits" : `${claim.permits} of the permits`);
  if (row.semaphore) {
    list(`Holders, of ${row.semaphore.permits} permits`, row.semaphore.holders.map((claim) => `${claim.holder}: ${permits(claim)}, fence ${claim.fence}`));
    list("Queue, in turn", row.semaphore.queue.map((claim) => `${claim.holder}: ${permits(claim)}`));
  }
  if (row.section) {
    parts.push(bar(row.section));
    list("Ranges", row.section.map((lease) => `${lease.ranges.join(", ")}: ${lease.holder}, fence ${lease.fence}, about ${brief(lease.left_ms)} left`));
  }
  return parts;
}

function line(change) {
  const who = change.holder ? `${change.holder} ` : "";
  const fence = change.fence === undefined ? "" : `, fence ${change.fence}`;
  const reason = change.reason ? ` (${change.reason})` : "";
  return make("li", { text: shown(`${clock(change.at)} ${who}${change.what}${fence}${reason}`) });
}
