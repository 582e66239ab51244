// Texts and elements. All text of logs goes into the page as text nodes: no markup is ever made of data.
const data = JSON.parse(document.getElementById("data").textContent);
const app = document.getElementById("app");
const CHUNK = 60,
  FIRST = 15,
  PRINTED = 240;
const LOST = new Set(["gap-truncated", "gap-unexplained", "segments-missing"]);
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const visible = (text) =>
  text.replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"),
  );
// Fields may be null or missing: == null means either.
const name = (value) => {
  if (value == null) return "";
  if (typeof value === "string") return visible(value);
  return value.base64 === undefined ? visible(JSON.stringify(value)) : "base64:" + value.base64;
};
const number = (value) =>
  value == null ? "–" : (typeof value === "string" ? BigInt(value) : value).toLocaleString("en-US");
const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;
const bytes = (value) => {
  if (value == null) return "–";
  let size = value,
    unit = 0;
  while (Math.abs(size) >= 1023.95 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return unit ? size.toFixed(1) + " " + UNITS[unit] : size + " B";
};
const time = (ms) => {
  if (ms == null || ms < 0) return "–";
  const moment = new Date(ms);
  return isNaN(moment) ? String(ms) : moment.toISOString().replace("T", " ").replace(".000Z", "Z");
};
// A duration in its two largest units
const duration = (ms) => {
  const seconds = ms / 1000;
  for (const [unit, smaller, size, part] of [
    ["d", "h", 86400, 3600],
    ["h", "min", 3600, 60],
    ["min", "s", 60, 1],
  ])
    if (seconds >= size) {
      const rest = Math.floor((seconds % size) / part);
      return `${number(Math.floor(seconds / size))} ${unit}` + (rest ? ` ${rest} ${smaller}` : "");
    }
  return `${seconds} s`;
};
const minute = (ms) => time(ms).replace(/^(.{10} ..:..).*Z$/, "$1Z");
const el = (tag, className, ...children) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const child of children) if (child != null) made.append(child);
  return made;
};
const button = (className, text, click) => {
  const made = el("button", className, text);
  made.type = "button";
  if (click) made.addEventListener("click", click);
  return made;
};
// What a screen reader says of an element: its role and perhaps a label.
const described = (made, role, label) => {
  made.setAttribute("role", role);
  if (label) made.setAttribute("aria-label", label);
  return made;
};
const press = (made, isOn) => made.setAttribute("aria-pressed", String(isOn));
const piece = (className, share) => {
  const made = el("span", className);
  made.style.width = 100 * share + "%";
  return made;
};
// As Map.groupBy, which browsers before 2024 lack.
const grouped = (rows, keyOf) => {
  const groups = new Map(rows.map((row) => [keyOf(row), []]));
  for (const row of rows) groups.get(keyOf(row)).push(row);
  return groups;
};
const base = (path) => name(path).replace(/\/+$/, "").split("/").pop();
const holder = (path) => name(path).replace(/\/+$/, "").split("/").slice(0, -1).join("/");

const copyByHand = (text) => {
  const area = el("textarea");
  area.value = text;
  area.setAttribute("aria-hidden", "true");
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = button.dataset.copy;
  await (navigator.clipboard?.writeText(text) ?? Promise.reject()).catch(() => copyByHand(text));
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
});
// A line breaks between the words of a command, not within an option.
const words = (text) => text.split(/( )/).map((word) => (word === " " ? word : el("span", "", word)));
const command = (text) => {
  const copy = button("", "Copy");
  copy.dataset.copy = text;
  return el("div", "copy", el("code", "", ...words(text)), copy);
};

// Paper has all next steps.
addEventListener("beforeprint", () => {
  for (const more of document.querySelectorAll("details.more")) more.open = true;
});
