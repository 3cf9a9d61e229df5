// Places for the nodes of a graph without circles: layers from left to right, few crossings.
export function layout(nodes, edges, sizeOf, gap = { x: 56, y: 18 }) {
  const byId = new Map(nodes.map((node) => [node.id, { node, before: [], after: [], layer: 0, ...sizeOf(node) }]));
  for (const edge of edges) {
    const from = byId.get(edge.from), to = byId.get(edge.to);
    if (from && to && from !== to) { from.after.push(to); to.before.push(from); }
  }
  // The longest way from a source; a job that writes into what it reads makes a circle, which ends here.
  const state = new Map();
  const depth = (place) => {
    if (state.get(place) === "open") return 0;
    if (state.get(place) === "done") return place.layer;
    state.set(place, "open");
    place.layer = Math.max(0, ...place.before.map((b) => (state.get(b) === "open" ? 0 : depth(b) + 1)));
    state.set(place, "done");
    return place.layer;
  };
  const all = [...byId.values()];
  all.forEach(depth);
  const layers = [];
  for (const place of all) (layers[place.layer] = layers[place.layer] || []).push(place);
  for (let round = 0; round < 4; round += 1) {
    const forward = round % 2 === 0;
    for (const layer of forward ? layers : [...layers].reverse()) {
      for (const place of layer) {
        const near = forward ? place.before : place.after;
        place.weight = near.length ? near.reduce((sum, n) => sum + n.order, 0) / near.length : place.order ?? 0;
      }
      layer.sort((a, b) => a.weight - b.weight);
      layer.forEach((place, i) => { place.order = i; });
    }
  }
  let x = 0, height = 0;
  const heights = layers.map((layer) => layer.reduce((sum, p) => sum + p.height + gap.y, -gap.y));
  const tallest = Math.max(0, ...heights);
  layers.forEach((layer, i) => {
    let y = (tallest - heights[i]) / 2;
    const width = Math.max(...layer.map((p) => p.width));
    for (const place of layer) { place.x = x; place.y = y; y += place.height + gap.y; }
    height = Math.max(height, y - gap.y);
    x += width + gap.x;
  });
  return { places: byId, width: Math.max(0, x - gap.x), height };
}

// A calm line from one point to another.
export function curve(x1, y1, x2, y2) {
  const bend = Math.max(24, (x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
