"use strict";
// Reads values at a score: by pointing at a picture, or with the arrow keys on the slider below it. The table holds the values.
document.querySelectorAll("figure").forEach((figure) => {
  const svg = figure.querySelector('svg[data-chart="lines"]');
  const table = figure.querySelector("table");
  if (!svg || !table) return;
  const rows = [...table.querySelectorAll("tbody tr")].filter((row) => row.dataset.x);
  if (!rows.length) return;
  const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
  const places = rows.map((row) => Number(row.dataset.x));
  const cursor = svg.querySelector(".cursor");
  const title = figure.querySelector("figcaption strong").textContent;
  const reader = document.createElement("div");
  const label = document.createElement("label");
  const slider = document.createElement("input");
  const output = document.createElement("output");
  reader.className = "reader";
  label.append("Read values at a score", slider);
  Object.assign(slider, { type: "range", min: 0, max: rows.length - 1, step: 1, value: Math.floor(rows.length / 2) });
  slider.setAttribute("aria-label", "Read values: " + title);
  reader.append(label, output);
  svg.after(reader);
  const show = (index) => {
    const cells = [...rows[index].cells].map((cell) => cell.textContent);
    slider.value = index;
    slider.setAttribute("aria-valuetext", names.map((name, i) => name + " " + cells[i]).join(", "));
    output.replaceChildren();
    names.forEach((name, i) => {
      const strong = document.createElement("b");
      strong.textContent = cells[i];
      output.append(name + " ", strong, i + 1 < names.length ? " \u00b7 " : "");
    });
    cursor.setAttribute("x1", places[index]);
    cursor.setAttribute("x2", places[index]);
    cursor.setAttribute("visibility", "visible");
    rows.forEach((row, i) => row.classList.toggle("now", i === index));
  };
  const nearest = (x) => places.reduce((best, place, i) => (Math.abs(place - x) < Math.abs(places[best] - x) ? i : best), 0);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    show(nearest(((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width));
  });
  slider.addEventListener("input", () => show(Number(slider.value)));
  slider.addEventListener("focus", () => show(Number(slider.value)));
  output.textContent = "Point at the picture, or use the arrow keys here.";
});
