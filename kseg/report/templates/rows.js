// The pages of kseg stats, kseg cluster, kseg retain --explain and of plans.
const stats = () => {
  const rows = ofType("summary");
  const total = (some, field) => some.reduce((sum, each) => sum + each[field], 0);
  const forms = grouped(
    rows.flatMap((row) => row.forms),
    (form) => `${form.format} ${form.compression}`,
  );
  const sums = [...forms.values()].map((some) => {
    const [batches, records, size] = ["batches", "records", "bytes"].map((field) => total(some, field));
    return { ...some[0], partitions: some.length, batches, records, bytes: size };
  });
  sums.sort((a, b) => b.bytes - a.bytes);
  const formShares = sums.map((form) => [`${form.format} ${form.compression}`, form.bytes, bytes(form.bytes)]);
  const formTable = table("formats and codecs", sums, [
    ["format", "Format", name],
    ["compression", "Codec", name],
    ...numbers({ partitions: "Partitions", batches: "Batches", records: "Records" }),
    SIZE,
  ]);
  section("forms", "Formats and codecs", null, stack(formShares), formTable);
  const kinds = [
    ["keyBytes", "Keys"],
    ["valueBytes", "Values"],
    ["headerBytes", "Headers"],
    ["framingBytes", "Framing of records"],
    ["batchHeaderBytes", "Batch headers"],
  ].map(([field, label]) => [field, label, total(rows, field)]);
  const decompressed = (row) => kinds.reduce((sum, [field]) => sum + row[field], 0);
  const mostFirst = [...rows].sort((a, b) => decompressed(b) - decompressed(a));
  const kindTable = table("decompressed bytes", mostFirst, [
    PARTITION,
    ...kinds.map(([field, label]) => [field, label, bytes, 1]),
    ...numbers({ nullValues: "Null values", emptyValues: "Empty values" }),
    ["recordsPerHour", "Records an hour", (v) => number(v === null || v < 10 ? v : Math.round(v)), 1],
  ]);
  const all = kinds.reduce((sum, [, , size]) => sum + size, 0);
  const kindShares = kinds.map(([, label, size]) => [label, size, bytes(size)]);
  section("bytes", "Decompressed bytes", bytes(all), stack(kindShares), kindTable);
  const bySize = (some) => some.sort((a, b) => b.bytes - a.bytes);
  const within = (row, some) => some.map((each) => ({ ...each, path: row.path }));
  const listed = (field) => bySize(rows.flatMap((row) => within(row, row[field])));
  tableSection("header-keys", "Header keys", false, listed("headerKeys"), [
    PARTITION,
    ["key", "Key", name],
    ["count", "Headers", number, 1],
    ["bytes", "Bytes", bytes, 1],
  ]);
  const untold = total(rows, "otherHeaders");
  if (untold) app.append(el("p", "soft", `${number(untold)} headers with further keys were only counted.`));
  const offset = ["offset", "Offset", number, 1];
  tableSection("largestRecords", "Largest records", false, listed("largestRecords"), [PARTITION, offset, SIZE]);
  tableSection("largestKeys", "Largest keys", false, listed("largestKeys"), [PARTITION, offset, SIZE]);
  const share = (row) => (row.bytesBefore ? row.bytesAfter / row.bytesBefore : 1);
  const tries = rows.flatMap((row) => (row.whatIf ? within(row, [row.whatIfs ?? row.whatIf].flat()) : []));
  tableSection("what-if", "Recompressed", false, tries, [
    PARTITION,
    ["compression", "Codec", name],
    ["level", "Level", (v) => (v === null ? "default" : number(v)), 1],
    ["bytesBefore", "Now", bytes, 1],
    ["bytesAfter", "Then", bytes, 1],
    [share, "Of now", (v) => (100 * v).toFixed(1) + " %", 1],
    ["megabytesPerSecond", "Speed", (v) => (v == null ? "–" : `${number(v)} MB/s`), 1],
  ]);
  const largest = Math.max(1, ...rows.map((row) => row.bytes));
  const bar = (size) => el("div", "sizes", piece("before", size / largest));
  const worstFirst = [...rows].sort((a, b) => harm(b) - harm(a));
  const partitions = table("partitions", worstFirst, [
    ["path", "Partition", (v) => Object.assign(el("span", "", base(v)), { title: name(v) }), "place"],
    SIZE,
    [(row) => row.bytes, "Of largest", bar],
    ...numbers({ files: "Segments", records: "Records" }),
    [formats, "Formats", name, "wide"],
    [harm, "Damage", (v, row) => (v ? pill("error", harmText(row)) : "–"), 1],
    ["leastBaseTimestamp", "Oldest", minute],
    ["maxTimestamp", "Newest", minute],
    [(row) => row.cleaner?.state ?? null, "Cleaner", (v) => (v === null ? "–" : name(v)), "wide"],
    [ratio, "Ratio", (v) => (v === null ? "–" : v.toFixed(2)), 1],
    ["batches", "Batches", number, 1],
  ]);
  section("partitions", "Partitions", number(rows.length), partitions);
};
// Columns of several tables.
const PARTITION = ["path", "Partition", base],
  DIRECTORY = ["directory", "Partition", base, "place"],
  FILE = ["file", "File", name, "place"],
  SIZE = ["bytes", "Size", bytes, 1],
  POSITION = ["position", "Position", number, 1],
  FIRST_OFFSET = ["firstOffset", "From offset", number, 1],
  LAST_OFFSET = ["lastOffset", "To offset", number, 1];
const ofType = (type) => data.rows.filter((row) => row.type === type);
const formats = (row) => {
  const codecs = new Map();
  for (const form of row.forms) codecs.set(form.format, [...(codecs.get(form.format) ?? []), form.compression]);
  return [...codecs].map(([format, used]) => `${format} ${used.join("+")}`).join(", ");
};
const problems = (row) => Object.values(row.problems).reduce((sum, each) => sum + each, 0);
const harm = (row) => row.damagedBytes + problems(row);
const harmText = (row) => {
  const parts = row.damagedBytes ? [bytes(row.damagedBytes)] : [];
  if (problems(row)) parts.push(plural(problems(row), "batch", "batches"));
  return parts.join(", ");
};
const ratio = (row) => {
  const packed = row.forms.filter((form) => form.uncompressedRecordBytes !== null);
  const size = packed.reduce((sum, form) => sum + form.recordBytes, 0);
  return size ? packed.reduce((sum, form) => sum + form.uncompressedRecordBytes, 0) / size : null;
};

const cluster = () => {
  const isMany = ofType("metadataImage").length > 1;
  let place = "";
  data.rows.forEach((row, at) => {
    if (row.type === "metadataImage") place = isMany ? ` of ${name(row.file)}` : "";
    if (row.type !== "imageTable") return;
    const columns = row.columns.map(({ title, isNumber }, i) => [
      (cells) => (isNumber && cells[i] !== null && !isNaN(cells[i]) ? Number(cells[i]) : cells[i]),
      title,
      name,
      isNumber ? 1 : "wide",
    ]);
    tableSection(`table-${at}`, row.title + place, true, row.rows, columns);
  });
  tableSection("changes", "Changes", true, ofType("imageChange"), [
    ["change", "Change", name],
    ["recordType", "Record", name],
    ["data", "Fields", name, "wide"],
  ]);
};

const retention = () => {
  const groups = [];
  for (const row of data.rows) {
    if (row.type === "retention") groups.push({ row, segments: [] });
    else if (row.type === "segmentRetention" && groups.length) groups[groups.length - 1].segments.push(row);
  }
  groups.sort((a, b) => b.row.bytes - b.row.bytesAfter - (a.row.bytes - a.row.bytesAfter));
  const rules = { logStart: "below the log start", size: "too much", time: "too old" };
  const verdict = (segment) => {
    if (segment.rule) return pill("warning", rules[segment.rule] ?? segment.rule);
    if (segment.goesAt) return "stays until " + time(segment.goesAt);
    if (segment.goesAfterBytes) return `stays until ${bytes(segment.goesAfterBytes)} more`;
    return "stays" + (segment.held ? ": " + name(segment.held) : "");
  };
  const setting = (row, key, value) => {
    const v = value === -1 ? "unlimited" : value;
    const source = row.sources[key];
    if (source === "unknown") return `${key} not known: assumed to be ${v}`;
    return `${key} ${v ?? "not known"}` + (source ? ` (${source})` : "");
  };
  const group = ({ row, segments }) => {
    const start = segments.map((each) => each.largestTimestamp).filter((ms) => ms !== null && ms >= 0);
    const least = Math.min(row.now, ...start),
      largest = Math.max(row.now, ...start, ...segments.map((each) => each.goesAt ?? 0));
    const share = (ms) => (100 * ms) / Math.max(1, largest - least) + "%";
    const line = (segment) => {
      const bar = el("i", segment.rule ? "goes" : ""),
        now = el("b");
      const from = segment.largestTimestamp ?? row.now,
        to = segment.goesAt ?? Math.max(from, row.now);
      bar.style.left = share(Math.min(from, to) - least);
      bar.style.width = share(Math.abs(to - from));
      now.style.left = share(row.now - least);
      const when = segment.goesAt ? time(segment.goesAt) : segment.rule ? "now" : "not by time";
      const label = `newest record ${time(segment.largestTimestamp)}, deleted ${when}`;
      return described(el("div", "timeline", bar, now), "img", label);
    };
    const settings = {
      "cleanup.policy": row.cleanupPolicy,
      "retention.ms": row.retentionMs > 0 ? `${row.retentionMs} = ${duration(row.retentionMs)}` : row.retentionMs,
      "retention.bytes": row.retentionBytes > 0 ? bytes(row.retentionBytes) : row.retentionBytes,
      "log start offset": row.logStartOffset,
      "high watermark": row.highWatermark,
    };
    const texts = Object.entries(settings).map(([key, value]) => setting(row, key, value));
    const columns = [
      ["file", "Segment", base, "place"],
      ["size", "Size", bytes, 1],
      ["baseOffset", "From offset", number, 1],
      LAST_OFFSET,
      ["largestTimestamp", "Newest record", (v, segment) => time(v) + (segment.isFuture ? " (in the future)" : "")],
      [(segment) => segment.largestTimestamp, "Timeline", (v, segment) => line(segment)],
      [(segment) => segment.rule ?? "", "Decision", (v, segment) => verdict(segment)],
    ];
    const text = `${bytes(row.bytes)} now, ${bytes(row.bytesAfter)} after; ` + texts.join(", ");
    return [name(row.directory), el("p", "soft", text), table(name(row.directory), segments, columns)];
  };
  const marks = legend(["seg-a", "stays"], ["lost", "is deleted"], ["hw", "now", true]);
  groupSection("partitions", "Partitions", groups.length, marks, groups, group, "No partition.");
};

// One row for the files of a segment that are deleted, made or replaced for the same reason.
const FOLDED = new Set(["delete", "create", "replace"]);
const sum = (a, b) => (a === null && b === null ? null : (a ?? 0) + (b ?? 0));
const folded = (rows) => {
  const made = new Map();
  for (const row of rows) {
    const [stem, ...suffixes] = base(row.file).split(".");
    const isFolded = FOLDED.has(row.action) && !row.removed.length;
    const key = isFolded ? `${row.action} ${stem} ${row.reason}` : row.file;
    const first = made.get(key);
    if (!first) made.set(key, { ...row });
    else {
      first.file += " ." + suffixes.join(".");
      for (const size of ["oldSize", "newSize"]) first[size] = sum(first[size], row[size]);
    }
  }
  return [...made.values()];
};

const removals = (row) =>
  Object.entries(row.gone)
    .filter(([, count]) => count)
    .map(([why, count]) => `${number(count)} ${why === "noKey" ? "without key" : why}`)
    .join(", ");

const plan = () => {
  const actions = ofType("action");
  const compactions = ofType("compaction");
  const freed = (row) => row.bytesBefore - row.bytesAfter;
  const removing = compactions.filter((row) => row.records > row.kept).sort((a, b) => freed(b) - freed(a));
  tableSection("compactions", "Records before and after", true, removing, [
    DIRECTORY,
    ...numbers({ records: "Records now", kept: "Records after" }),
    [removals, "Removed", name, "wide"],
    ["bytesBefore", "Size now", bytes, 1],
    ["bytesAfter", "Size after", bytes, 1],
  ]);
  const stops = compactions.flatMap((row) => row.stops.map((reason) => ({ directory: row.directory, reason })));
  tableSection("stops", "Not cleaned", true, stops, [DIRECTORY, ["reason", "Reason", name, "wide"]]);
  const groups = grouped(actions, (row) => holder(row.file));
  tableSection("cuts", "Where logs are truncated", true, ofType("cut"), [
    ["file", "File", name],
    POSITION,
    ["code", "Reason", name],
    ["length", "Bytes removed", bytes, 1],
    ["intactBatches", "Valid batches in them", number, 1],
    ["intactRecords", "Valid records in them", number, 1],
    ["nextOffset", "Log ends at offset", number, 1],
  ]);
  const damages = ofType("damage");
  tableSection("damage", "Damaged ranges", true, damages, [
    FILE,
    POSITION,
    ["length", "Bytes", bytes, 1],
    ["code", "Code", name],
    ["message", "What is wrong", name],
  ]);
  tableSection("left-out", "Intact batches left out", true, ofType("leftOut"), [
    FILE,
    POSITION,
    ["length", "Bytes", bytes, 1],
    ["intactRecords", "Records", number, 1],
    FIRST_OFFSET,
    LAST_OFFSET,
    ["message", "Why", name],
  ]);
  const gaps = data.rows.findLast((row) => row.type === "summary")?.gaps ?? [];
  tableSection("gaps", "Offsets that stay missing", true, gaps, [
    ["directory", "Partition", name, "place"],
    FIRST_OFFSET,
    LAST_OFFSET,
    [(row) => BigInt(row.lastOffset) - BigInt(row.firstOffset) + 1n, "Offsets", number, 1],
  ]);
  const tones = { delete: "error", truncate: "warning", replace: "info", create: "good" };
  const harmed = new Set([...damages.map((row) => holder(row.file)), ...gaps.map((row) => name(row.directory))]);
  const lost = (rows) => rows.reduce((sum, row) => sum + row.removedBytes, 0);
  const removed = (each) =>
    each.firstOffset == null
      ? `${bytes(each.length)} at ${number(each.position)}`
      : `offsets ${number(each.firstOffset)} to ${number(each.lastOffset)}`;
  const group = ([place, rows]) => {
    const largest = Math.max(1, ...rows.map((row) => Math.max(row.oldSize ?? 0, row.newSize ?? 0)));
    const size = (className, value) => piece(className, (value ?? 0) / largest);
    const sizes = (row) => el("div", "sizes", size("before", row.oldSize), size("after", row.newSize));
    const columns = [
      ["action", "Operation", (v) => pill(tones[v] ?? "info", name(v))],
      ["file", "File", base, "place"],
      ["oldSize", "Before", bytes, 1],
      ["newSize", "After", bytes, 1],
      [(row) => row.oldSize ?? 0, "Sizes", (v, row) => sizes(row)],
      ["reason", "Reason", name],
      [(row) => row.removed.map(removed).slice(0, 5).join("; "), "Removed", (v) => v],
    ];
    return [place, table(place, folded(rows), columns)];
  };
  const worst = (a, b) => harmed.has(b[0]) - harmed.has(a[0]) || lost(b[1]) - lost(a[1]);
  const marks = legend(["before", "size before"], ["after", "size after"]);
  const sorted = [...groups].sort(worst);
  groupSection("actions", "File operations", actions.length, marks, sorted, group, "Nothing would change.");
};
