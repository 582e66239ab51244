// The page of kseg verify: partitions and findings.
const hexLines = (finding) => {
  const { start, bytes: digits } = finding.hex;
  const box = el("pre", "hex");
  box.tabIndex = 0;
  box.setAttribute("aria-label", "bytes around position " + finding.position);
  const end = finding.position + Math.max(1, finding.length ?? 1);
  const pairs = digits.match(/../g) ?? [];
  const shown = (code) => (code >= 32 && code < 127 ? String.fromCharCode(code) : ".");
  for (let at = 0; at < pairs.length; at += 16) {
    const line = el("div", "", el("span", "soft", String(start + at).padStart(10) + "  "));
    const row = pairs.slice(at, at + 16);
    row.forEach((two, i) => {
      const isMeant = finding.position <= start + at + i && start + at + i < end;
      line.append(isMeant ? el("mark", "", two) : two, " ");
    });
    const ascii = row.map((two) => shown(parseInt(two, 16))).join("");
    line.append("   ".repeat(16 - row.length) + " " + ascii);
    box.append(line);
  }
  return box;
};
const factsList = (facts) => {
  const list = el("dl", "facts-list small");
  for (const [key, value] of Object.entries(facts)) {
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    list.append(el("dt", "soft", key), el("dd", "mono", visible(text)));
  }
  return list;
};
const findingRow = (finding, partitions) => {
  const place = partitions[finding.place];
  const where = [base(finding.file)];
  if (finding.position !== null) where.push("position " + number(finding.position));
  if (finding.offset !== null) where.push("offset " + number(finding.offset));
  const head = el(
    "summary",
    "",
    el("span", "", pill(finding.severity, finding.severity)),
    el("span", "code mono", finding.code),
    el("span", "at soft small", name(place.name) + ": " + where.join(", ")),
    el("span", "message", visible(finding.message)),
  );
  const row = el("details", "finding", head);
  row.addEventListener("toggle", () => {
    if (!row.open || row.children.length > 1) return;
    const told = data.codes[finding.code] ?? { sentence: "", means: "" };
    const body = el("div", "body", el("p", "", told.sentence), el("p", "", told.means));
    const part = (title, found, make) => found && body.append(el("h3", "soft small", title), make(found));
    body.append(el("p", "mono", name(finding.file)));
    part("Repair", finding.repair, command);
    part("Other repair", finding.otherRepair, command);
    part("To abort the transaction, on a live cluster", finding.abort, command);
    if (finding.needs) body.append(el("p", "soft", "Needs " + finding.needs + "."));
    part("Bytes", finding.hex && finding, hexLines);
    part("Facts", Object.keys(finding.details).length && finding.details, factsList);
    row.append(body);
  });
  return row;
};

const verify = () => {
  const { partitions, findings } = data;
  const byPlace = grouped(findings, (finding) => finding.place);
  const order = partitions.map((partition, i) => ({ ...partition, i }));
  const most = (a, b) => b.counts.map((count, i) => count - a.counts[i]).find(Boolean);
  order.sort((a, b) => most(a, b) ?? (name(a.name) < name(b.name) ? -1 : 1));

  const wanted = { severities: new Set(), code: "", text: "", place: null };
  const list = el("div", "list");
  const want = (changed) => {
    Object.assign(wanted, changed);
    show();
  };
  const found = search("Text", (text) => want({ text }));
  const chosen = button("", "", () => want({ place: null }));
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
    const all = rows.length === findings.length ? "" : ` of ${number(findings.length)}`;
    counted.textContent = number(rows.length) + all;
    const whenEmpty = findings.length ? "No finding fits the filters." : "No findings.";
    lazy(list, rows, (finding) => findingRow(finding, partitions), whenEmpty);
  };
  const counted = el("span", "count soft", "");

  const shownPartitions = el("div", "list");
  const severities = ["error", "warning", "info"];
  const facts = (partition) => {
    const strip = partition.strip;
    if (!strip) return el("div", "facts soft small", "");
    const size = strip.segments.reduce((sum, each) => sum + each.size, 0);
    const many = strip.segments.length + strip.segmentsLeftOut;
    const text = `${bytes(size)}, ${plural(many, "segment", "segments")}`;
    const waits = partition.cleaner ? el("div", "cleaner", "cleaner: " + visible(partition.cleaner)) : null;
    return el("div", "facts soft small", text, waits);
  };
  const partitionRow = (partition) => {
    const pills = el("span", "pills");
    severities.forEach((severity, i) => {
      if (!partition.counts[i]) return;
      const text = plural(partition.counts[i], severity, severity + "s");
      const only = button("pill " + severity, text, () => {
        for (const chip of chips) press(chip, chip.dataset.severity === severity);
        want({ place: partition.i, severities: new Set([severity]) });
        document.getElementById("findings").scrollIntoView();
      });
      only.setAttribute("aria-label", `${text} of ${name(partition.name)}`);
      pills.append(only);
    });
    if (!partition.counts.some(Boolean)) pills.append(pill("good", "clean"));
    const title = el("div", "name", name(partition.name));
    const head = el("div", "", title, el("div", "where soft", holder(partition.path)), pills);
    const strip = partition.strip && stripOf(partition, byPlace.get(partition.i) ?? []);
    return el("div", "partition", head, strip || el("div", "soft", partition.note), facts(partition));
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
  const bad = button("", "Only with errors or warnings", () => {
    onlyBad = !onlyBad;
    press(bad, onlyBad);
    showPartitions();
  });
  press(bad, false);
  if (partitions.length) {
    const named = search("Name", (text) => {
      filter = text;
      showPartitions();
    });
    const marks = legend(
      ["seg-a", "segments"],
      ["damage", "damage"],
      ["lost", "lost offsets"],
      ["harmless", "gaps of compaction and transactions"],
      ["aborted", "aborted"],
      ["open", "open transaction"],
      ["start", "log start", true],
      ["hw", "high watermark", true],
      ["lso", "last stable offset", true],
    );
    const tools = el("div", "tools", named, bad);
    section("partitions", "Partitions", number(partitions.length), tools, marks, shownPartitions);
    showPartitions();
  }
  const chips = severities.map((severity) => {
    const many = findings.filter((finding) => finding.severity === severity).length;
    const chip = button("", `${severity} (${number(many)})`, () => {
      const isOn = chip.getAttribute("aria-pressed") !== "true";
      press(chip, isOn);
      if (isOn) wanted.severities.add(severity);
      else wanted.severities.delete(severity);
      show();
    });
    chip.dataset.severity = severity;
    press(chip, false);
    return chip;
  });
  const codes = el("select", "", el("option", "", "all"));
  codes.firstChild.value = "";
  for (const code of [...new Set(findings.map((finding) => finding.code))].sort())
    codes.append(el("option", "", code));
  codes.addEventListener("change", () => want({ code: codes.value }));
  const tools = el("div", "tools", ...chips, el("label", "soft small", "Code", codes), found, chosen);
  section("findings", "Findings", null, tools, list).append(counted);
  findings.sort((a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity));
  show();
  const hidden = data.findingsLeftOut + data.omitted.reduce((sum, each) => sum + each[2], 0);
  const where = "further findings were counted; kseg verify --format json prints them.";
  if (hidden) app.append(el("p", "soft", `${number(hidden)} ${where}`));
  const joined = (values) => values.map(name).join(", ");
  tableSection("node-copies", "Copies of the nodes", false, data.nodeCopies, [
    ["node", "Node", number, 1],
    ["logDirectories", "Log directories", joined],
    ["fits", "Fits", (fits) => (fits ? "yes" : "no")],
    ["findings", "Findings", joined],
    ["wasClean", "Stopped cleanly", (isClean) => (isClean ? "yes" : "no")],
    ...numbers({
      metadataEnd: "Metadata end",
      partitionsBehind: "Partitions behind",
      offsetsBehind: "Offsets behind",
    }),
  ]);
  tableSection("losses", "What a start may lose", true, data.losses, [
    ["partition", "Partition", name],
    ["outcome", "Lost", (outcome) => (outcome === "depends" ? "depends on the leader" : "whoever leads")],
    ...numbers({ leader: "If this node leads", node: "Node that has them" }),
    ...numbers({ firstOffset: "First offset", lastOffset: "Last offset", records: "Records" }),
  ]);
  tableSection("replicas", "Replicas", false, data.comparisons, [
    ["file", "Path", name],
    ["against", "Compared with", name],
    ...numbers({ same: "Equal", different: "Different", onlyHere: "Only here", onlyThere: "Only there" }),
    ["divergeAt", "Diverge at", number, 1],
  ]);
};
