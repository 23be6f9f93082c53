// A list of which only what is in sight is in the page: it bears 100,000 rows.

import { make } from "./words.js";

/** Rows above and below what is in sight. */
const SPARE = 4;

export class List {
  #box;
  #space = make("div", { class: "space", role: "presentation" });
  #columns;
  #fill;
  #open;
  #items = [];
  #at = 0;
  #pool = [];
  #asked = false;
  #was_seen = false;

  /** `fill(item)` has a text for each column, and the row's state; `open(item)` is what Enter and a click do. */
  constructor(box, { columns, fill, open }) {
    [this.#box, this.#columns, this.#fill, this.#open] = [box, columns, fill, open];
    box.append(this.#space);
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    box.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  get length() {
    return this.#items.length;
  }

  /** What is selected stays so, wherever it is now. */
  show(items) {
    const key = this.#items[this.#at]?.key;
    this.#items = items;
    const at = this.#key_at(key);
    this.#at = at < 0 ? Math.max(0, Math.min(this.#at, items.length - 1)) : at;
    this.draw();
  }

  #key_at(key) {
    // It has seldom moved.
    if (this.#items[this.#at]?.key === key) return this.#at;
    return key === undefined ? -1 : this.#items.findIndex((item) => item.key === key);
  }

  get #height() {
    return parseFloat(getComputedStyle(this.#box).getPropertyValue("--row")) || 34;
  }

  draw() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.#draw();
    });
  }

  #draw() {
    const [height, items] = [this.#height, this.#items];
    this.#space.style.height = `${items.length * height}px`;
    this.#box.setAttribute("aria-rowcount", items.length);
    const first = Math.max(0, Math.floor(this.#box.scrollTop / height) - SPARE);
    const last = Math.min(items.length, Math.ceil((this.#box.scrollTop + this.#box.clientHeight) / height) + SPARE);
    while (this.#pool.length < last - first) this.#pool.push(this.#row());
    this.#pool.forEach((row, n) => {
      const at = first + n;
      row.hidden = at >= last;
      if (row.hidden) return;
      const { texts, state } = this.#fill(items[at]);
      row.id = `row-${at}`;
      row.dataset.at = at;
      row.dataset.state = state ?? "";
      row.style.transform = `translateY(${at * height}px)`;
      row.setAttribute("aria-rowindex", at + 1);
      row.setAttribute("aria-selected", at === this.#at);
      texts.forEach((text, column) => {
        const cell = row.children[column];
        if (cell.textContent === text) return;
        cell.textContent = text;
        cell.title = text;
      });
    });
    if (items.length > 0) this.#box.setAttribute("aria-activedescendant", `row-${this.#at}`);
    else this.#box.removeAttribute("aria-activedescendant");
    if (last > first && !this.#was_seen) performance.mark("rows");
    this.#was_seen ||= last > first;
  }

  #row() {
    const cells = this.#columns.map((column) => make("span", { class: column, role: "gridcell" }));
    const row = make("div", { class: "row", role: "row" }, ...cells);
    row.addEventListener("click", () => {
      this.#at = Number(row.dataset.at);
      this.draw();
      this.#open(this.#items[this.#at]);
    });
    this.#space.append(row);
    return row;
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.#box.clientHeight / this.#height) - 1);
    const moves = {
      ArrowDown: this.#at + 1,
      ArrowUp: this.#at - 1,
      PageDown: this.#at + page,
      PageUp: this.#at - page,
      Home: 0,
      End: this.#items.length - 1,
    };
    if (event.key in moves) {
      this.#select(moves[event.key]);
    } else if (event.key === "Enter" && this.#items[this.#at]) {
      this.#open(this.#items[this.#at]);
    } else {
      return;
    }
    event.preventDefault();
  }

  #select(at) {
    this.#at = Math.max(0, Math.min(at, this.#items.length - 1));
    const [top, height] = [this.#at * this.#height, this.#height];
    const box = this.#box;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
    this.draw();
  }
}
