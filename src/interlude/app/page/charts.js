// Two small drawings: an accuracy with its interval, and accuracies over the number of labels. All in percent.

import { draw, number, points } from "./dom.js";

const MARGIN = { left: 44, right: 14, top: 10, bottom: 40 };
const RUNGS = [0, 20, 40, 60, 80, 100];

/** An accuracy between its bounds, on a line from 0 to 100 %. */
export function interval(accuracy, low, high) {
  const x = (value) => 4 + 2.92 * value;
  return draw(
    "svg", { viewBox: "0 0 300 34", role: "img", "aria-label": `${points(accuracy)}, between ${points(low)} and ${points(high)}` },
    draw("line", { class: "track", x1: x(0), x2: x(100), y1: 10, y2: 10 }),
    draw("line", { class: "whisker", x1: x(low), x2: x(high), y1: 10, y2: 10 }),
    draw("circle", { class: "dot", cx: x(accuracy), cy: 10, r: 6 }),
    draw("text", { x: 0, y: 31 }, "0"),
    draw("text", { x: 300, y: 31, "text-anchor": "end" }, "100 %"),
  );
}

/** Accuracy over labels, with the band of its intervals and a dashed line to the forecast. */
export function curveChart(curve, forecast, width) {
  const spots = [...curve].sort((a, b) => a.labels - b.labels);
  const last = spots.at(-1);
  const ahead = forecast && { labels: last.labels + forecast.more, accuracy: Math.min(100, last.accuracy + forecast.gain) };
  const scale = scaled(spots, ahead, width);
  const words = spots.map((one) => `${points(one.accuracy)} with ${one.labels}`).join(", ");
  return draw(
    "svg", { width, height: scale.height, role: "img", "aria-label": `Accuracy over labels: ${words}` },
    ...axes(scale, width),
    ...uncertainty(spots, scale),
    ...(ahead ? outlook(last, ahead, scale) : []),
    draw("path", { class: "curve", d: path(spots.map(scale.place)) }),
    ...spots.map((one) => dot("dot", scale.place(one))),
  );
}

function scaled(spots, ahead, width) {
  const { left, right, top, bottom } = MARGIN;
  const height = Math.min(240, Math.max(170, width * 0.45));
  const most = 1.05 * Math.max(...spots.map((one) => one.labels), ahead?.labels ?? 0);
  const floor = Math.max(0, Math.floor(Math.min(...spots.map((one) => one.low)) / 20) * 20);
  const x = (labels) => left + (labels / most) * (width - left - right);
  const y = (value) => height - bottom - ((value - floor) / (100 - floor)) * (height - top - bottom);
  return { x, y, place: (one) => [x(one.labels), y(one.accuracy)], height, most, floor };
}

function axes({ x, y, height, most, floor }, width) {
  const { left, right, bottom } = MARGIN;
  return [
    ...RUNGS.filter((value) => value >= floor).flatMap((value) => [
      draw("line", { class: "rung", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      draw("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, points(value)),
    ]),
    ...ticks(most).map((labels) => draw("text", { x: x(labels), y: height - bottom + 18, "text-anchor": "middle" }, number(labels))),
    draw("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "labels"),
  ];
}

function uncertainty(spots, { x, y }) {
  if (spots.length === 1) {
    const [one] = spots;
    return [draw("line", { class: "whisker", x1: x(one.labels), x2: x(one.labels), y1: y(one.low), y2: y(one.high) })];
  }
  const above = spots.map((one) => [x(one.labels), y(one.high)]);
  const below = spots.map((one) => [x(one.labels), y(one.low)]);
  return [draw("path", { class: "band", d: `${path([...above, ...below.reverse()])}Z` })];
}

function outlook(last, ahead, { place }) {
  return [draw("path", { class: "ahead", d: path([last, ahead].map(place)) }), dot("ring", place(ahead))];
}

const dot = (kind, [cx, cy]) => draw("circle", { class: kind, cx, cy, r: 4 });

const path = (places) => places.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** Round numbers from 0 up, about five of them. */
function ticks(most) {
  const unit = 10 ** Math.floor(Math.log10(most / 5));
  const size = Math.max(1, [1, 2, 5, 10].map((one) => one * unit).find((one) => one >= most / 5));
  return Array.from({ length: Math.floor(most / size) + 1 }, (_, place) => place * size);
}
