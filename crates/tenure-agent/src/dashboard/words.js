// How things are said to people.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A text of others, with what can't be seen, or turns what is beside it around, shown by its number. */
export const shown = (text) =>
  String(text).replace(HIDDEN, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);

/** A span of milliseconds, in one or two units. */
export function brief(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** A number of things. */
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** The time of day. */
export const clock = (date) => date.toLocaleTimeString("en-GB");

/** An element with text and children. No text becomes markup. */
export function make(name, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(key, value === true ? "" : value);
  }
  if (text !== undefined) element.textContent = text;
  element.append(...children);
  return element;
}
