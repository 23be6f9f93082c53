// The store's records as this page knows them, and what it has seen become of them.

import { brief, clock } from "./words.js";

const MOST_CHANGES = 2000;

/** What is said of a tenure's beginning and of its end, whoever has seen it. */
const [HAS, HAD] = ["has it", "nobody has it"];

/** The same change has the same name. */
const name = ({ key, what, fence }) => JSON.stringify([key, what, fence]);

/** What kind of thing a record is. */
export function kind(row) {
  if (row.semaphore) return "semaphore";
  if (row.section) return "section";
  if (row.key.startsWith("session/") || /^fleet\/[^/]+\/worker\//.test(row.key)) return "session";
  if (/^fleet\/[^/]+\/unit\//.test(row.key)) return "unit";
  return "lease";
}

/** Who holds it, in a line. */
export function holders(row) {
  const names = (row.semaphore?.holders ?? row.section ?? []).map((claim) => claim.holder);
  const all = new Set(row.holder ? [row.holder] : names);
  return all.size > 1 ? `${all.size} holders` : ([...all][0] ?? "");
}

/** How much longer it lasts if nothing is renewed, in words; nothing if that is not known. Renewals are no news: that one was held is all that is known
 * after that time, until it is read again. Ranges are not renewed. */
export function left(row) {
  if (row.left_ms === undefined) return "";
  const age = performance.now() - row.sent;
  if (age < row.left_ms) return brief(row.left_ms - age);
  return row.section ? "over" : `as of ${clock(new Date(Date.now() - age))}`;
}

/** What makes a new tenure of it. */
const tenure = (row) => (row && row.state !== "vacant" ? `${row.state} ${row.fence} ${holders(row)}` : "vacant");

export class Records {
  rows = new Map();
  /** The newest first. */
  changes = [];
  /** When all of them were last read, or null. */
  read = null;
  /** When a record had another holder, of those that this page has seen change. */
  moved = new Map();
  #touched = new Map();
  #turn = 0;
  #changed;

  /** `changed` is called whenever rows have changed. */
  constructor(changed) {
    this.#changed = changed;
  }

  /** Reads all. Returns how long that took, in milliseconds. */
  async refresh(agent) {
    const [began, turn] = [performance.now(), ++this.#turn];
    const rows = new Map();
    for await (const page of agent.pages()) {
      for (const row of page) rows.set(row.key, row);
      // The first sight is shown at once.
      if (!this.read) {
        for (const row of page) this.rows.set(row.key, row);
        this.#changed();
      }
    }
    // What was read since by itself is newer.
    for (const [key, when] of this.#touched) {
      if (when < turn) this.#touched.delete(key);
      else if (this.rows.has(key)) rows.set(key, this.rows.get(key));
      else rows.delete(key);
    }
    if (this.read) {
      for (const [key, row] of rows) this.#compare(key, this.rows.get(key), row);
      for (const [key, row] of this.rows) if (!rows.has(key)) this.#compare(key, row, null);
    }
    this.rows = rows;
    this.read = new Date();
    this.#changed();
    return performance.now() - began;
  }

  /** Reads one. */
  async touch(agent, key) {
    this.#set(key, await agent.record(key));
    this.#changed();
  }

  /** Takes records that the agent has read, and keys that have none any more. */
  take(rows, gone) {
    const sent = performance.now();
    for (const row of rows) this.#set(row.key, { ...row, sent });
    for (const key of gone) this.#set(key, null);
    this.#changed();
  }

  #set(key, row) {
    this.#touched.set(key, this.#turn);
    if (this.read) this.#compare(key, this.rows.get(key), row);
    if (row) this.rows.set(key, row);
    else this.rows.delete(key);
  }

  /** Takes tenures that the agent has seen, of before this page was opened among them. */
  recall(tenures) {
    const seen = new Set(this.changes.map(name));
    const changes = tenures.flatMap(({ key, fence, holder, since, until, reason }) => [
      ...(since ? [{ at: new Date(since), key, what: HAS, fence, holder }] : []),
      // That another has it is told by that one's beginning.
      ...(until && reason !== "another has it" ? [{ at: new Date(until), key, what: HAD, fence, holder, reason }] : []),
    ]);
    this.changes.push(...changes.filter((change) => !seen.has(name(change))));
    this.changes.sort((a, b) => b.at - a.at);
    this.changes.length = Math.min(this.changes.length, MOST_CHANGES);
    this.#changed();
  }

  /** Keeps in mind what has happened. */
  note(key, what, row, reason) {
    const change = { at: new Date(), key, what, fence: row?.fence, holder: row ? holders(row) : "", reason };
    this.changes.unshift(change);
    this.changes.length = Math.min(this.changes.length, MOST_CHANGES);
  }

  #compare(key, before, now) {
    if (tenure(before) === tenure(now)) return;
    if (now) this.moved.set(key, Date.now());
    else this.moved.delete(key);
    const state = now?.state ?? "removed";
    const what = { held: HAS, vacant: HAD, expired: "is silent", damaged: "can't be read", unknown: "has a session that can't be read", removed: "the record is gone" };
    this.note(key, what[state] ?? state, state === "vacant" || !now ? before : now);
  }
}

/** How many writes a day renewals are, if nothing changes. */
export function renewals(rows) {
  const DAY = 86_400_000;
  let writes = 0;
  for (const row of rows) if (row.state === "held" && row.ttl_ms) writes += (3 * DAY) / row.ttl_ms;
  return writes;
}
