// Lists, tables and bars.
// Rows are made when they come near the screen.
// With a button, further rows wait for a click, so that what comes below stays near.
const lazy = (list, rows, make, whenEmpty, withButton = false) => {
  list.replaceChildren();
  let done = 0;
  const sentinel = el(withButton ? "button" : "div", "sentinel");
  const more = () => {
    const end = Math.min(done + (withButton && !done ? FIRST : CHUNK), rows.length);
    const fragment = document.createDocumentFragment();
    for (; done < end; done += 1) fragment.append(make(rows[done], done));
    list.insertBefore(fragment, sentinel);
    if (done === rows.length) {
      watcher.disconnect();
      sentinel.remove();
    } else if (withButton) sentinel.textContent = `Show more (${number(rows.length - done)} left)`;
  };
  list.append(sentinel);
  sentinel.addEventListener("click", more);
  const watcher = new IntersectionObserver(
    (seen) => {
      if (seen.some((each) => each.isIntersecting)) more();
    },
    { rootMargin: "800px" },
  );
  if (!rows.length) list.append(el("p", "empty soft", whenEmpty));
  more();
  addEventListener("beforeprint", () => {
    while (list.contains(sentinel) && done < Math.min(rows.length, PRINTED)) more();
    if (list.contains(sentinel)) sentinel.textContent = `${number(rows.length - done)} more`;
  });
  if (done < rows.length && !withButton) watcher.observe(sentinel);
};
const section = (id, title, count, ...content) => {
  const heading = el("h2", "", title, count === null ? null : el("span", "count soft", count));
  heading.id = id + "-title";
  const made = el("section", "", heading, ...content);
  made.id = id;
  made.setAttribute("aria-labelledby", heading.id);
  app.append(made);
  return heading;
};
// A section with a group of each item, of which `make` returns the title and what stands below it.
const groupSection = (id, title, count, marks, items, make, whenEmpty) => {
  const list = el("div", "list");
  section(id, title, number(count), marks, list);
  const group = ([head, ...parts]) => el("div", "group", el("h3", "", head), ...parts);
  lazy(list, items, (item) => group(make(item)), whenEmpty);
};
const search = (label, change) => {
  const box = el("input");
  box.type = "search";
  let waiting = 0;
  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => change(box.value.toLowerCase()), 120);
  });
  return el("label", "soft small", label, box);
};

// An entry of a legend.
const sampled = (color, text, className) => {
  const sample = el("span", className);
  sample.style.background = color;
  return el("li", "", sample, text);
};
const legend = (...entries) => {
  const items = entries.map(([color, text, isLine]) => sampled(`var(--${color})`, text, isLine ? "line" : ""));
  return el("ul", "legend soft small", ...items);
};
const pill = (severity, text) => el("span", "pill " + severity, text);

// Columns are [key or function, title, shown, class]: 1 is that of a number. Null stands last in either order.
// The label tells a screen reader which table it is.
// Roles are set, because browsers take them from tables that are no longer laid out as such on narrow screens.
const numbers = (titles) => Object.entries(titles).map(([field, title]) => [field, title, number, 1]);
const classOf = (column) => (column[3] === 1 ? "number" : (column[3] ?? ""));
const table = (label, rows, columns) => {
  const head = described(el("tr"), "row"),
    body = described(el("tbody"), "rowgroup");
  const value = (row, column) => (typeof column[0] === "function" ? column[0](row) : row[column[0]]);
  let sorted = rows;
  const show = () => {
    body.replaceChildren();
    let done = 0;
    const more = () => {
      const end = Math.min(done + CHUNK * 4, sorted.length);
      for (; done < end; done += 1) {
        const line = described(el("tr"), "row");
        for (const column of columns) {
          const className = column[3] ? classOf(column) : column[2] === time || column[2] === minute ? "time" : "";
          const cell = described(el("td", className, column[2](value(sorted[done], column), sorted[done])), "cell");
          cell.dataset.label = column[1];
          line.append(cell);
        }
        body.append(line);
      }
      if (done < sorted.length) {
        const left = button("", `Show more (${number(sorted.length - done)} left)`, () => {
          line.remove();
          more();
        });
        const cell = described(el("td", "", left), "cell");
        cell.colSpan = columns.length;
        const line = described(el("tr", "", cell), "row");
        body.append(line);
      }
    };
    more();
  };
  for (const column of columns) {
    const sorting = button("", column[1], () => {
      const falls = cell.getAttribute("aria-sort") !== "descending";
      for (const other of head.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const key = (row) => {
        const found = value(row, column);
        return typeof found === "object" ? name(found) : found;
      };
      sorted = [...rows].sort((a, b) => {
        const x = key(a),
          y = key(b);
        return x === y ? 0 : x === null ? 1 : y === null ? -1 : (x < y ? -1 : 1) * (falls ? -1 : 1);
      });
      show();
    });
    const cell = described(el("th", classOf(column), sorting), "columnheader");
    cell.scope = "col";
    head.append(cell);
  }
  show();
  const headRows = described(el("thead", "", head), "rowgroup");
  const box = el("div", "table", described(el("table", "", headRows, body), "table"));
  box.tabIndex = 0;
  return described(box, "region", "table: " + label);
};
const COLORS = ["#5b8fd1", "#4caf85", "#d89a3d", "#a77bd6", "#d46a7e", "#6fb7c4", "#9a9f55", "#8c8f99"];
const stack = (parts) => {
  const total = parts.reduce((sum, part) => sum + part[1], 0) || 1;
  const shares = parts.map((part) => `${part[0]} ${((100 * part[1]) / total).toFixed(1)} %`);
  const bar = described(el("div", "stack"), "img", shares.join(", ")),
    list = el("ul", "legend soft small");
  parts.forEach(([label, size, text], i) => {
    const part = piece("", size / total),
      color = COLORS[i % COLORS.length];
    part.style.background = color;
    bar.append(part);
    list.append(sampled(color, `${label}: ${text}`));
  });
  return el("div", "", bar, list);
};
// A section with one table, unless the table would be empty.
const tableSection = (id, title, isCounted, rows, columns) => {
  const count = isCounted ? number(rows.length) : null;
  if (rows.length) section(id, title, count, table(title.toLowerCase(), rows, columns));
};
