// Fleets as maps: a band for each worker, a square for each of its units.

import { brief, count, make, shown } from "./words.js";

/** How long a unit that has moved stands out. */
const FRESH = 5000;
const [LARGEST, SMALLEST, BAND, LABEL] = [16, 3, 6, 18];

/** The fleets that records tell of, by name: their workers and units. */
export function fleets(rows) {
  const all = new Map();
  for (const row of rows) {
    const [, name, part] = /^fleet\/([^/]+)\/(unit\/.|worker\/.|board$)/.exec(row.key) ?? [];
    if (!name) continue;
    if (!all.has(name)) all.set(name, { workers: new Map(), units: [], planning: null });
    const fleet = all.get(name);
    if (part === "board") fleet.planning = row.planning ?? null;
    else if (part.startsWith("unit")) fleet.units.push(row);
    else if (row.holder) fleet.workers.set(row.holder, row);
  }
  return all;
}

/** Bands of one fleet: what has no living worker comes last. */
function bands({ workers, units }) {
  const all = new Map([...workers].map(([holder, row]) => [holder, { holder, row, units: [] }]));
  const free = { holder: null, row: null, units: [] };
  for (const unit of units) {
    // Whose session can't be read may be at work.
    if (unit.state === "unknown" && !all.has(unit.holder)) all.set(unit.holder, { holder: unit.holder, row: null, units: [] });
    (unit.state === "held" || unit.state === "unknown" ? (all.get(unit.holder) ?? free) : free).units.push(unit);
  }
  const sorted = [...all.values()].sort((a, b) => (a.holder < b.holder ? -1 : 1));
  return free.units.length > 0 ? [...sorted, free] : sorted;
}

/** Who plans, how old the last plan is, and who is to take the planner's place. */
function plans({ workers, planning }) {
  if (!planning) return "";
  const lives = (holder) => workers.get(holder)?.state === "held";
  const planner = lives(planning.planner) ? `${shown(planning.planner)} plans` : "nobody plans";
  const age = planning.told ? ` was told ${brief(Date.now() - Date.parse(planning.told))} ago` : "";
  const plan = planning.plan === undefined ? "" : `, plan ${planning.plan}${age}`;
  const standbys = planning.standbys.filter((holder) => lives(holder) && holder !== planning.planner).map(shown);
  return `; ${planner}${plan}${standbys.length > 0 ? `, ${standbys.join(" and ")} ${standbys.length > 1 ? "stand" : "stands"} by` : ""}`;
}

function name({ holder, row }) {
  if (holder === null) return "without a worker";
  if (row === null) return `${shown(holder)}, unknown`;
  return `${shown(holder)}${row.state === "held" ? "" : ", silent"}`;
}

export class Fleets {
  #box;
  #open;
  #moved;
  #drawn = new Map();

  /** `open(row)` is what a click does; `moved(key)` is when a record last had another holder. */
  constructor(box, { open, moved }) {
    [this.#box, this.#open, this.#moved] = [box, open, moved];
    new ResizeObserver(() => this.draw()).observe(box);
  }

  show(rows, fits) {
    const all = fleets(rows);
    for (const [key, part] of this.#drawn) {
      if (all.has(key)) continue;
      part.section.remove();
      this.#drawn.delete(key);
    }
    for (const [key, fleet] of all) {
      if (!this.#drawn.has(key)) this.#drawn.set(key, this.#part(key));
      Object.assign(this.#drawn.get(key), { bands: bands(fleet), units: fleet.units.length, plans: plans(fleet), fits });
    }
    this.draw();
    return all.size;
  }

  #part(key) {
    const title = make("h2", { text: shown(key) });
    const canvas = make("canvas", { role: "img" });
    const section = make("section", {}, title, canvas);
    const part = { title, canvas, section, key, places: [] };
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return find(part, event.clientX - box.left, event.clientY - box.top);
    };
    canvas.addEventListener("click", (event) => {
      const row = at(event);
      if (row) this.#open(row);
    });
    canvas.addEventListener("mousemove", (event) => {
      const row = at(event);
      canvas.title = row ? shown(row.key) : "";
    });
    this.#box.append(section);
    return part;
  }

  draw() {
    if (this.#box.hidden) return;
    const style = getComputedStyle(document.documentElement);
    const color = (word) => style.getPropertyValue(`--${word}`).trim();
    const colors = Object.fromEntries(["fore", "soft", "line", "good", "warn", "mark"].map((word) => [word, color(word)]));
    for (const part of this.#drawn.values()) this.#draw(part, colors);
  }

  #draw(part, colors) {
    const width = Math.max(200, this.#box.clientWidth - 24);
    // Thousands of units are smaller.
    const size = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt((width * 600) / Math.max(1, part.units)))));
    const columns = Math.floor(width / size);
    let y = 0;
    part.places = part.bands.map((band) => {
      const place = { band, top: y + LABEL, size, columns };
      y += LABEL + Math.max(1, Math.ceil(band.units.length / columns)) * size + BAND;
      return place;
    });
    const { canvas } = part;
    const sharp = window.devicePixelRatio;
    [canvas.width, canvas.height] = [width * sharp, y * sharp];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${y}px`];
    const pen = canvas.getContext("2d");
    pen.scale(sharp, sharp);
    pen.font = "12px system-ui, sans-serif";
    const now = Date.now();
    for (const { band, top } of part.places) {
      pen.fillStyle = band.row?.state === "held" ? colors.fore : colors.warn;
      pen.fillText(`${name(band)}: ${count(band.units.length, "unit")}`, 0, top - 5, width);
      band.units.forEach((unit, n) => {
        const is_fresh = now - this.#moved(unit.key) < FRESH;
        pen.fillStyle = is_fresh ? colors.mark : unit.state === "held" ? colors.good : unit.state === "vacant" ? colors.soft : colors.warn;
        if (!part.fits(unit)) pen.fillStyle = colors.line;
        const gap = size > 4 ? 1 : 0;
        pen.fillRect((n % columns) * size, top + Math.floor(n / columns) * size, size - gap, size - gap);
      });
    }
    const lines = part.bands.map((band) => `${name(band)}: ${band.units.length}`);
    part.title.textContent = `${shown(part.key)}: ${count(part.bands.filter((band) => band.holder).length, "worker")}, ${count(part.units, "unit")}${part.plans}`;
    canvas.setAttribute("aria-label", lines.join("; "));
  }
}

/** The unit that is drawn there. */
function find({ places }, x, y) {
  for (const { band, top, size, columns } of places) {
    const [column, line] = [Math.floor(x / size), Math.floor((y - top) / size)];
    if (line >= 0 && column >= 0 && column < columns && line * columns + column < band.units.length) {
      return band.units[line * columns + column];
    }
  }
  return null;
}

/** A section's ranges as a bar over all that is leased of it. */
export function bar(section) {
  const pairs = section.flatMap((lease) => lease.ranges.map((range) => ({ lease, ends: range.split("_").map((end) => BigInt(`0x${end}`)) })));
  const canvas = make("canvas", { role: "img", "aria-label": pairs.map(({ lease, ends }) => `${ends.map((end) => end.toString(16)).join(" to ")}: ${shown(lease.holder)}, ${brief(lease.left_ms)}`).join("; ") });
  if (pairs.length === 0) return canvas;
  const low = pairs.reduce((least, { ends }) => (ends[0] < least ? ends[0] : least), pairs[0].ends[0]);
  const high = pairs.reduce((most, { ends }) => (ends[1] > most ? ends[1] : most), pairs[0].ends[1]);
  [canvas.width, canvas.height] = [1000, 22];
  const pen = canvas.getContext("2d");
  const at = (point) => Number(((point - low) * 1000n) / (high - low || 1n));
  const holders = [...new Set(section.map((lease) => lease.holder))];
  for (const { lease, ends } of pairs) {
    pen.fillStyle = `hsl(${(holders.indexOf(lease.holder) * 137) % 360} 60% ${lease.left_ms > 0 ? 50 : 80}%)`;
    pen.fillRect(at(ends[0]), 0, Math.max(2, at(ends[1]) - at(ends[0]) - 1), 22);
  }
  return canvas;
}
