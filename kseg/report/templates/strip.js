// The tip of strips
const tip = document.getElementById("tip");
const showTip = (event, text) => {
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  const isLow = event.clientY + 22 + tip.offsetHeight > innerHeight;
  tip.style.top = event.clientY + (isLow ? -tip.offsetHeight - 10 : 18) + "px";
};
const hideTip = () => (tip.hidden = true);

// The arrow keys move over a strip as a pointer does, Home and End to its ends.
const withKeys = (box, showAt) => {
  let share = 0;
  const show = () => {
    const area = box.getBoundingClientRect();
    showAt({ clientX: area.left + share * area.width, clientY: area.top });
  };
  box.tabIndex = 0;
  box.addEventListener("focus", () => box.matches(":focus-visible") && show());
  box.addEventListener("blur", hideTip);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.01, ArrowRight: 0.01, Home: -1, End: 1 }[event.key];
    if (event.key === "Escape") hideTip();
    if (step === undefined) return;
    event.preventDefault();
    share = Math.max(0, Math.min(1, share + step));
    show();
  });
};

const layout = (strip) => {
  let start = 0;
  const anchors = [];
  const segments = strip.segments.map((segment) => {
    const placed = { ...segment, start };
    for (const [position, offset, ms] of segment.anchors) anchors.push([start + position, offset, ms]);
    start += segment.size;
    return placed;
  });
  return { segments, anchors, total: start };
};
const positionOf = (map, wanted) => {
  const offset = Number(wanted);
  const at = map.anchors.findIndex((anchor) => anchor[1] > offset),
    before = map.anchors[(at < 0 ? map.anchors.length : at) - 1],
    after = map.anchors[at];
  if (!before) return 0;
  if (!after) return before[1] === offset ? before[0] : map.total;
  return before[0] + ((after[0] - before[0]) * (offset - before[1])) / (after[1] - before[1]);
};
// The last class names the color.
const block = (map, className, from, to) => {
  const made = el("span", className);
  made.style.setProperty("--kind", `var(--${className.split(" ").pop()})`);
  made.style.left = Math.max(0, Math.min(100, (100 * from) / map.total)) + "%";
  if (to !== null) made.style.width = Math.max(0, (100 * (Math.min(to, map.total) - from)) / map.total) + "%";
  return made;
};
const stripOf = (partition, findings) => {
  const strip = partition.strip;
  const box = el("div", "strip");
  const map = layout(strip);
  if (!map.total) return described(box, "img", "empty");
  const marks = [];
  map.segments.forEach((segment, i) =>
    box.append(block(map, "seg seg-" + "ab"[i % 2], segment.start, segment.start + segment.size)),
  );
  const add = (className, from, to, title) => {
    box.append(block(map, className, from, to));
    marks.push([from, to === null ? from : to, title]);
  };
  const at = (offset) => positionOf(map, offset);
  for (const [first, last] of strip.aborted)
    add("aborted", at(first), at(last), `aborted transaction, offsets ${first} to ${last}`);
  const codes = new Set();
  for (const finding of findings) {
    const isHere = (each) => finding.position !== null && name(each.name) === base(finding.file);
    const segment = map.segments.find(isHere);
    const place = segment && segment.start + Number(finding.position);
    if (finding.code.startsWith("gap-")) {
      const first = Number(finding.details.firstMissing ?? finding.offset ?? 0),
        last = Number(finding.details.lastMissing ?? first);
      const isLost = LOST.has(finding.code);
      const from = isLost && segment ? place : at(first),
        to = isLost && segment ? place : Math.max(from, at(last + 1));
      add(isLost ? "lost" : "harmless", from, to, `${finding.code}: offsets ${first} to ${last}`);
    } else if (segment && finding.severity !== "info") {
      const to = place + Number(finding.length ?? 0);
      add("damage", place, to, `${finding.code} at position ${finding.position}`);
    } else continue;
    codes.add(finding.code);
  }
  const { firstOpenOffset, logStartOffset, highWatermark } = strip;
  if (firstOpenOffset != null) {
    add("open", at(firstOpenOffset), map.total, `open transaction from offset ${firstOpenOffset}`);
    add("mark lso", at(firstOpenOffset), null, `last stable offset ${firstOpenOffset}`);
  }
  if (logStartOffset) add("mark start", at(logStartOffset), null, `log start offset ${logStartOffset}`);
  if (highWatermark !== null) add("mark hw", at(highWatermark), null, `high watermark ${highWatermark}`);
  const also = codes.size ? "; " + [...codes].join(", ") : "";
  described(box, "img", `${map.segments.length} segments, ${bytes(map.total)}` + also);
  const showAt = (event) => {
    const area = box.getBoundingClientRect();
    const at = Math.max(0, Math.min(1, (event.clientX - area.left) / area.width)) * map.total;
    const near = (map.total * 5) / area.width;
    const segment = map.segments.findLast((each) => each.start <= at) ?? map.segments[0];
    const anchor = map.anchors.findLast((each) => each[0] <= at);
    const lines = [name(segment.name), `position ${number(Math.floor(at - segment.start))}`];
    if (anchor) lines.push(`offset ${number(anchor[1])} or a little later`, time(anchor[2]));
    for (const [from, to, title] of marks) if (from - near <= at && at <= to + near) lines.push(title);
    showTip(event, lines.slice(0, 9).join("\n"));
  };
  box.addEventListener("pointermove", showAt);
  box.addEventListener("pointerdown", showAt);
  box.addEventListener("pointerleave", hideTip);
  withKeys(box, showAt);
  return box;
};
