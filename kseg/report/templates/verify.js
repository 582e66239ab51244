// The page of kseg verify: partitions and findings.
const hexLines = (finding) => {
  const { start, bytes: digits } = finding.hex;
  const box = el("pre", "hex");
  box.tabIndex = 0;
  box.setAttribute("aria-label", "bytes around position " + finding.position);
  const end = finding.position + Math.max(1, finding.length ?? 1);
  for (let at = 0; at < digits.length; at += 32) {
    const line = el("div", "", el("span", "pos", String(start + at / 2).padStart(10) + "  "));
    let ascii = "";
    for (let i = at; i < at + 32; i += 2) {
      const two = digits.slice(i, i + 2);
      if (!two) {
        line.append("   ");
        continue;
      }
      const position = start + i / 2,
        code = parseInt(two, 16);
      line.append(finding.position <= position && position < end ? el("mark", "", two) : two, " ");
      ascii += code >= 32 && code < 127 ? String.fromCharCode(code) : ".";
    }
    line.append(" " + ascii);
    box.append(line);
  }
  return box;
};
const factsList = (facts) => {
  const list = el("dl", "facts-list");
  for (const [key, value] of Object.entries(facts)) {
    list.append(
      el("dt", "", key),
      el(
        "dd",
        "mono",
        typeof value === "object" && value !== null
          ? visible(JSON.stringify(value))
          : value === null
            ? "null"
            : visible(String(value)),
      ),
    );
  }
  return list;
};
const findingRow = (finding, partitions) => {
  const place = partitions[finding.place];
  const where = [base(finding.file)];
  if (finding.position !== null) where.push("position " + number(finding.position));
  if (finding.offset !== null) where.push("offset " + number(finding.offset));
  const row = el(
    "details",
    "finding",
    el(
      "summary",
      "",
      el("span", "", pill(finding.severity, finding.severity)),
      el("span", "code mono", finding.code),
      el("span", "at", name(place.name) + ": " + where.join(", ")),
      el("span", "message", visible(finding.message)),
    ),
  );
  row.addEventListener("toggle", () => {
    if (!row.open || row.children.length > 1) return;
    const told = data.codes[finding.code] ?? { sentence: "", means: "" };
    const body = el(
      "div",
      "body",
      el("p", "", told.sentence),
      el("p", "", told.means),
      el("p", "mono", name(finding.file)),
    );
    if (finding.repair) body.append(el("h3", "", "Repair"), command(finding.repair));
    if (finding.otherRepair) body.append(el("h3", "", "Other repair"), command(finding.otherRepair));
    if (finding.abort) body.append(el("h3", "", "To abort the transaction, on a live cluster"), command(finding.abort));
    if (finding.needs) body.append(el("p", "note", "Needs " + finding.needs + "."));
    if (finding.hex) body.append(el("h3", "", "Bytes"), hexLines(finding));
    if (Object.keys(finding.details).length) body.append(el("h3", "", "Facts"), factsList(finding.details));
    row.append(body);
  });
  return row;
};

const verify = () => {
  const { partitions, findings } = data;
  const byPlace = new Map();
  for (const finding of findings) {
    if (!byPlace.has(finding.place)) byPlace.set(finding.place, []);
    byPlace.get(finding.place).push(finding);
  }
  const order = partitions.map((partition, i) => ({ ...partition, i }));
  order.sort(
    (a, b) =>
      b.counts[0] - a.counts[0] ||
      b.counts[1] - a.counts[1] ||
      b.counts[2] - a.counts[2] ||
      (name(a.name) < name(b.name) ? -1 : 1),
  );

  const wanted = { severities: new Set(), code: "", text: "", place: null };
  const list = el("div", "list");
  const found = search("Text", (text) => {
    wanted.text = text;
    show();
  });
  const chosen = el("button", "", "");
  const show = () => {
    const rows = findings.filter(
      (finding) =>
        (!wanted.severities.size || wanted.severities.has(finding.severity)) &&
        (!wanted.code || finding.code === wanted.code) &&
        (wanted.place === null || finding.place === wanted.place) &&
        (!wanted.text ||
          (name(finding.file) + " " + finding.code + " " + finding.message).toLowerCase().includes(wanted.text)),
    );
    chosen.hidden = wanted.place === null;
    if (wanted.place !== null) chosen.textContent = "Only " + name(partitions[wanted.place].name) + " ✕";
    counted.textContent =
      rows.length === findings.length
        ? number(rows.length)
        : `${number(rows.length)} of ${number(findings.length)}`;
    lazy(
      list,
      rows,
      (finding) => findingRow(finding, partitions),
      findings.length ? "No finding fits the filters." : "No findings.",
    );
  };
  const counted = el("span", "count", "");
  chosen.type = "button";
  chosen.addEventListener("click", () => {
    wanted.place = null;
    show();
  });

  const shownPartitions = el("div", "list");
  const facts = (partition) => {
    const strip = partition.strip;
    if (!strip) return el("div", "facts", "");
    const size = strip.segments.reduce((sum, each) => sum + each.size, 0);
    const many = strip.segments.length + strip.segmentsLeftOut;
    const text = `${bytes(size)}, ` + (many === 1 ? "1 segment" : `${number(many)} segments`);
    const waits = partition.cleaner ? el("div", "cleaner", "cleaner: " + visible(partition.cleaner)) : null;
    return el("div", "facts", text, waits);
  };
  const partitionRow = (partition) => {
    const pills = el("span", "pills");
    ["error", "warning", "info"].forEach((severity, i) => {
      if (!partition.counts[i]) return;
      const button = el(
        "button",
        "pill " + severity,
        `${number(partition.counts[i])} ${severity}${partition.counts[i] === 1 ? "" : "s"}`,
      );
      button.type = "button";
      button.setAttribute("aria-label", `${button.textContent} of ${name(partition.name)}`);
      button.addEventListener("click", () => {
        wanted.place = partition.i;
        wanted.severities = new Set([severity]);
        for (const chip of chips) chip.setAttribute("aria-pressed", String(chip.dataset.severity === severity));
        show();
        document.getElementById("findings").scrollIntoView();
      });
      pills.append(button);
    });
    if (!partition.counts.some(Boolean)) pills.append(pill("good", "clean"));
    const head = el(
      "div",
      "",
      el("div", "name", name(partition.name)),
      el("div", "where", holder(partition.path)),
      pills,
    );
    return el(
      "div",
      "partition",
      head,
      partition.strip
        ? stripOf(partition, byPlace.get(partition.i) ?? [])
        : el("div", "note", partition.note),
      facts(partition),
    );
  };
  let filter = "",
    onlyBad = false;
  const showPartitions = () => {
    const rows = order.filter(
      (partition) =>
        (!filter || name(partition.path).toLowerCase().includes(filter)) &&
        (!onlyBad || partition.counts[0] || partition.counts[1]),
    );
    lazy(shownPartitions, rows, partitionRow, "No partition fits the filter.", true);
  };
  const bad = el("button", "", "Only with errors or warnings");
  bad.type = "button";
  bad.setAttribute("aria-pressed", "false");
  bad.addEventListener("click", () => {
    onlyBad = !onlyBad;
    bad.setAttribute("aria-pressed", String(onlyBad));
    showPartitions();
  });
  if (partitions.length) {
    section(
      "partitions",
      "Partitions",
      number(partitions.length),
      el(
        "div",
        "tools",
        search("Name", (text) => {
          filter = text;
          showPartitions();
        }).label,
        bad,
      ),
      legend(
        ["seg-a", "segments"],
        ["damage", "damage"],
        ["lost", "lost offsets"],
        ["harmless", "gaps of compaction and transactions"],
        ["aborted", "aborted"],
        ["open", "open transaction"],
        ["start", "log start", true],
        ["hw", "high watermark", true],
        ["lso", "last stable offset", true],
      ),
      shownPartitions,
    );
    showPartitions();
  }
  const chips = ["error", "warning", "info"].map((severity) => {
    const many = findings.filter((finding) => finding.severity === severity).length;
    const chip = el("button", "", `${severity} (${number(many)})`);
    chip.type = "button";
    chip.dataset.severity = severity;
    chip.setAttribute("aria-pressed", "false");
    chip.addEventListener("click", () => {
      const isOn = chip.getAttribute("aria-pressed") !== "true";
      chip.setAttribute("aria-pressed", String(isOn));
      if (isOn) wanted.severities.add(severity);
      else wanted.severities.delete(severity);
      show();
    });
    return chip;
  });
  const codes = el("select", "", el("option", "", "all"));
  codes.firstChild.value = "";
  for (const code of [...new Set(findings.map((finding) => finding.code))].sort())
    codes.append(el("option", "", code));
  codes.addEventListener("change", () => {
    wanted.code = codes.selectedIndex ? codes.value : "";
    show();
  });
  const { heading } = section(
    "findings",
    "Findings",
    null,
    el("div", "tools", ...chips, el("label", "", "Code", codes), found.label, chosen),
    list,
  );
  heading.append(counted);
  findings.sort(
    (a, b) => ["error", "warning", "info"].indexOf(a.severity) - ["error", "warning", "info"].indexOf(b.severity),
  );
  show();
  const hidden = data.findingsLeftOut + data.omitted.reduce((sum, each) => sum + each[2], 0);
  if (hidden)
    app.append(
      el("p", "note", `${number(hidden)} further findings were counted; kseg verify --format json prints them.`),
    );
  tableSection(
    "replicas",
    "Replicas",
    null,
    [
      ["path", "Path", name],
      ["other", "Compared with", name],
      ["same", "Equal", number, 1],
      ["different", "Different", number, 1],
      ["onlyHere", "Only here", number, 1],
      ["onlyThere", "Only there", number, 1],
      ["divergeAt", "Diverge at", number, 1],
    ],
    data.comparisons,
    "replicas",
  );
};
