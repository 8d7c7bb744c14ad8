"use strict";
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const byId = (id) => document.getElementById(id);
  const number = (value) =>
    Math.abs(value) >= 1e3 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));

  // Sections are tabs: one is shown; printing shows all.
  const links = [...document.querySelectorAll("nav a")];
  const sections = [...document.querySelectorAll("main > section")];
  function show(id, isClick) {
    const chosen = sections.some((section) => section.id === id) ? id : sections[0].id;
    sections.forEach((section) => { section.hidden = section.id !== chosen; });
    links.forEach((link) => {
      if (link.hash === "#" + chosen) {
        link.setAttribute("aria-current", "page");
        link.scrollIntoView({ block: "nearest", inline: "center" });
      } else {
        link.removeAttribute("aria-current");
      }
    });
    if (isClick) window.scrollTo(0, 0);
    if (chosen === "trees") drawTree();
  }
  links.forEach((link) => link.addEventListener("click", (event) => {
    event.preventDefault();
    try { history.replaceState(null, "", link.hash); } catch (error) { /* some viewers have no history */ }
    show(link.hash.slice(1), true);
  }));
  window.addEventListener("hashchange", () => show(location.hash.slice(1), true));

  // Light and dark: the system's choice, until the button is pressed.
  const root = document.documentElement;
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    const source = byId(button.dataset.copy);
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch (error) {
      button.textContent = "Selected";
    }
  }));

  // The threshold of two classes.
  const cuts = data.thresholds;
  const slider = byId("threshold");
  if (cuts && slider) {
    const last = cuts.t.length - 1, positives = cuts.p, negatives = cuts.n;
    const costs = () => [Math.max(+byId("cost-fp").value || 0, 0), Math.max(+byId("cost-fn").value || 0, 0)];
    const costAt = (i) => { const [a, b] = costs(); return a * cuts.fp[i] + b * (positives - cuts.tp[i]); };
    const put = (id, text) => { byId(id).textContent = text; };
    const dot = (chart, id, x, y) => {
      const [x0, x1, y0, y1, left, right, top, bottom] = byId(chart).dataset.frame.split(",").map(Number);
      byId(id).setAttribute("cx", left + (x - x0) / (x1 - x0) * (right - left));
      byId(id).setAttribute("cy", bottom - (y - y0) / (y1 - y0) * (bottom - top));
    };
    const update = () => {
      const i = +slider.value, tp = cuts.tp[i], fp = cuts.fp[i], fn = positives - tp, tn = negatives - fp;
      const precision = tp + fp > 0 ? tp / (tp + fp) : 1, recall = tp / positives;
      put("threshold-value", cuts.t[i].toFixed(4).replace(/0+$/, "").replace(/\.$/, ""));
      put("tp", number(tp)); put("fp", number(fp)); put("fn", number(fn)); put("tn", number(tn));
      put("precision", precision.toFixed(4)); put("recall", recall.toFixed(4));
      put("specificity", (tn / negatives).toFixed(4));
      put("f1", (2 * tp / Math.max(2 * tp + fp + fn, 1e-300)).toFixed(4));
      put("cost", number(costAt(i))); put("cost-row", number(costAt(i) / (positives + negatives)));
      dot("roc", "roc-dot", fp / negatives, recall);
      dot("pr", "pr-dot", recall, precision);
    };
    slider.max = last;
    slider.value = cuts.t.reduce((best, t, i) => Math.abs(t - 0.5) < Math.abs(cuts.t[best] - 0.5) ? i : best, 0);
    slider.addEventListener("input", update);
    byId("cost-fp").addEventListener("input", update);
    byId("cost-fn").addEventListener("input", update);
    byId("cheapest").addEventListener("click", () => {
      slider.value = cuts.t.reduce((best, t, i) => costAt(i) < costAt(best) ? i : best, 0);
      update();
    });
    update();
  }

  // The tree browser.
  const forest = data.forest, picker = byId("tree"), rowPicker = byId("tree-row");
  const SPACE = "http://www.w3.org/2000/svg";
  const svg = (name, attributes, text) => {
    const made = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const option = (value, text) => {
    const made = document.createElement("option");
    made.value = value;
    made.textContent = text;
    return made;
  };
  // Large trees are drawn in part: the first splits, the way of the row, and what is opened by a click.
  const SMALL = 16, FIRST = 3;
  const opened = new Map();
  const below = (tree) => {
    const leaves = tree.f.map(() => 0), above = tree.f.map(() => -1);
    tree.f.forEach((_, i) => [tree.a[i], tree.b[i]].forEach((child) => { if (child >= 0) above[child] = i; }));
    const wayTo = (parent) => { const way = []; for (let i = parent; i >= 0; i = above[i]) way.push(i); return way; };
    const ways = [];
    tree.f.forEach((_, i) => [tree.a[i], tree.b[i]].forEach((child) => { if (child < 0) ways[~child] = wayTo(i); }));
    ways.forEach((way) => way.forEach((i) => { leaves[i] += 1; }));
    return { leaves, ways };
  };
  function drawTree() {
    if (!picker) return;
    const place = +picker.value, tree = forest.trees[place];
    const row = rowPicker.value === "" ? null : forest.rows[+rowPicker.value];
    const aim = row ? row.leaves[place] : null;
    const nodes = [], pending = [[tree.f.length ? 0 : -1, -1, 0, false]];
    const { leaves, ways } = below(tree), way = new Set(row && tree.f.length ? ways[aim] : []);
    const isOpen = (split, depth) =>
      opened.get(split) ?? (tree.v.length <= SMALL || way.has(split) || depth < FIRST);
    const size = (of) => tree.u === "rows" ? of.toLocaleString("en") + " rows" : `${tree.u} ${number(of)}`;
    let count = 0, deepest = 0;
    while (pending.length) {
      const [child, parent, depth, isLeft] = pending.pop(), at = nodes.length;
      const node = { child, parent, depth, isLeft, children: [], on: way.has(child) };
      if (child >= 0) {
        const name = forest.features[tree.f[child]];
        node.lines = [name + " " + tree.r[child], size(tree.n[child])];
        if (row) node.lines[1] += " · here " + (row.values[tree.f[child]] ?? "");
        node.title = node.lines[0] + "; missing: " + (tree.m[child] ? "yes" : "no");
        node.open = isOpen(child, depth);
        if (node.open) {
          pending.push([tree.b[child], at, depth + 1, false], [tree.a[child], at, depth + 1, true]);
        } else {
          node.lines[1] = `${size(tree.n[child])} · ${leaves[child]} leaves ▸`;
          node.across = count++;
        }
      } else {
        const leaf = ~child;
        node.lines = [(tree.v[leaf] > 0 ? "+" : "") + tree.v[leaf], size(tree.c[leaf])];
        node.title = "leaf " + leaf;
        node.across = count++;
        node.on = leaf === aim;
      }
      deepest = Math.max(deepest, depth);
      nodes.push(node);
      if (parent >= 0) nodes[parent].children.push(at);
    }
    for (const node of [...nodes].reverse()) {
      if (!node.children.length) continue;
      node.across = node.children.reduce((sum, i) => sum + nodes[i].across, 0) / node.children.length;
    }
    const cut = (text) => text.length > 34 ? text.slice(0, 33) + "…" : text;
    const columns = Array.from({ length: deepest + 1 }, () => 80);
    nodes.forEach((node) => node.lines.forEach((line) => {
      columns[node.depth] = Math.max(columns[node.depth], cut(line).length * 6.4 + 22);
    }));
    const lefts = columns.map((_, i) => 14 + columns.slice(0, i).reduce((sum, width) => sum + width + 52, 0));
    const high = 42, step = 52;
    const width = lefts[deepest] + columns[deepest] + 14, height = count * step + 20;
    const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
    const y = (node) => 12 + node.across * step;
    nodes.forEach((node) => {
      if (node.parent < 0) return;
      const from = nodes[node.parent], x0 = lefts[from.depth] + columns[from.depth], x1 = lefts[node.depth];
      const y0 = y(from) + high / 2, y1 = y(node) + high / 2, middle = (x0 + x1) / 2;
      drawing.append(svg("path", { d: `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`, class: node.on ? "on" : "" }));
      drawing.append(svg("text", { x: middle + 6, y: (y0 + 2 * y1) / 3 + 3, class: "way", "text-anchor": "middle" }, node.isLeft ? "yes" : "no"));
    });
    nodes.forEach((node) => {
      const kind = node.child < 0 ? "leaf" : node.open ? "" : "closed";
      const group = svg("g", { class: `${kind} ${node.on ? "on" : ""}` });
      group.append(svg("title", {}, node.title));
      if (node.child >= 0) {
        const turn = () => { opened.set(node.child, !node.open); redraw(node.child); };
        group.dataset.split = node.child;
        Object.entries({ tabindex: 0, role: "button", "aria-expanded": node.open }).forEach(([key, value]) => group.setAttribute(key, value));
        group.addEventListener("click", turn);
        group.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); turn(); }
        });
      }
      const x = lefts[node.depth], wide = columns[node.depth];
      group.append(svg("rect", { x, y: y(node), width: wide, height: high, rx: 7 }));
      group.append(svg("text", { x: x + wide / 2, y: y(node) + 18, "text-anchor": "middle" }, cut(node.lines[0])));
      group.append(svg("text", { x: x + wide / 2, y: y(node) + 34, "text-anchor": "middle", class: "tick" }, cut(node.lines[1])));
      drawing.append(group);
    });
    const view = byId("tree-view");
    view.replaceChildren(drawing);
    view.scrollTop = y(nodes[0]) + high / 2 - view.clientHeight / 2;
    const depth = Math.max(0, ...ways.map((splits) => splits.length));
    const facts = [`${tree.v.length} leaves, depth ${depth}`];
    if (row) facts.push(`row ${row.name} ends in leaf ${aim}, which adds ${tree.v[aim]}`);
    byId("tree-facts").textContent = facts.join(" · ");
  }
  function redraw(split) { // what was clicked stays where it is
    const view = byId("tree-view"), find = () => view.querySelector(`[data-split="${split}"]`);
    const before = find().getBoundingClientRect(), left = view.scrollLeft;
    drawTree();
    const after = find();
    view.scrollLeft = left;
    view.scrollTop += after.getBoundingClientRect().top - before.top;
    after.focus({ preventScroll: true });
  }
  if (picker) {
    forest.numbers.forEach((name, i) => picker.append(option(i, name)));
    rowPicker.append(option("", "none"));
    forest.rows.forEach((row, i) => rowPicker.append(option(i, row.name)));
    if (forest.rows.length) rowPicker.value = "0";
    const move = (by) => {
      picker.value = Math.min(Math.max(+picker.value + by, 0), forest.numbers.length - 1);
      drawAnew();
    };
    const drawAnew = () => { opened.clear(); drawTree(); };
    picker.addEventListener("change", drawAnew);
    rowPicker.addEventListener("change", drawAnew);
    byId("tree-back").addEventListener("click", () => move(-1));
    byId("tree-next").addEventListener("click", () => move(1));
    drawTree();
  }
  show(location.hash.slice(1), false);
})();
