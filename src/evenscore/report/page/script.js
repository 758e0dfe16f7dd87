"use strict";
// Without this script the page shows everything: sections unfold by themselves, and follow the system's theme.
const everySection = [...document.querySelectorAll("details.section")];
const root = document.documentElement;
const button = (id, press) => {
  const found = document.getElementById(id);
  found.hidden = false;
  found.addEventListener("click", () => press(found));
  return found;
};

button("all", (own) => {
  const open = own.getAttribute("aria-pressed") !== "true";
  own.setAttribute("aria-pressed", open);
  everySection.forEach((section) => { section.open = open; });
});

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const nameTheme = (own) => { own.textContent = isDark() ? "Light" : "Dark"; };
nameTheme(button("theme", (own) => {
  root.dataset.theme = isDark() ? "light" : "dark";
  root.style.colorScheme = root.dataset.theme;
  nameTheme(own);
}));

// A link of the contents unfolds its section.
const unfold = () => {
  const target = document.getElementById(location.hash.slice(1));
  const section = target && target.closest("details.section");
  if (section) section.open = true;
};
addEventListener("hashchange", unfold);
document.querySelectorAll("nav a").forEach((link) => link.addEventListener("click", () => setTimeout(unfold)));
unfold();

// On paper every section is open; tables of numbers stay as they are.
let closed = [];
addEventListener("beforeprint", () => {
  closed = everySection.filter((section) => !section.open);
  closed.forEach((section) => { section.open = true; });
});
addEventListener("afterprint", () => closed.forEach((section) => { section.open = false; }));

const visibleSvg = (figure) => [...figure.querySelectorAll("svg.chart")].find((svg) => svg.getClientRects().length);

// A picture as a file of its own: with the page's rules, and its colours as they are now.
const saveSvg = (figure) => {
  const svg = visibleSvg(figure).cloneNode(true);
  const names = ["ink", "soft", "faint", "paper", "wash", "mute", "bad", "c0", "c1", "c2", "c3", "c4", "c5", "c6"];
  const colours = getComputedStyle(document.body);
  const variables = names.map((name) => `--${name}:${colours.getPropertyValue("--" + name)}`).join(";");
  const rules = [...document.styleSheets[0].cssRules].filter((rule) => rule.selectorText && /svg|\.[cfd]-?\w/.test(rule.selectorText));
  const style = document.createElementNS(svg.namespaceURI, "style");
  style.textContent = `svg{${variables};background:var(--paper)}` + rules.map((rule) => rule.cssText.replaceAll(".evenscore-audit ", "")).join("");
  svg.prepend(style);
  svg.classList.remove("narrow");
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("xmlns", svg.namespaceURI);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
  link.download = figure.id + ".svg";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

document.querySelectorAll("figure[id]").forEach((figure) => {
  const caption = figure.querySelector("figcaption");
  if (!caption || !figure.querySelector("svg.chart")) return;
  const save = document.createElement("button");
  Object.assign(save, { type: "button", className: "save", textContent: "SVG" });
  save.setAttribute("aria-label", "Save as SVG: " + caption.querySelector("strong").textContent);
  save.addEventListener("click", () => saveSvg(figure));
  caption.prepend(save);
});

// Reads values at a score: by pointing at a picture, or with the arrow keys on the slider below it. The table holds the values.
document.querySelectorAll("figure").forEach((figure) => {
  const pictures = [...figure.querySelectorAll('svg[data-chart="lines"]')];
  const table = figure.querySelector("table");
  if (!pictures.length || !table) return;
  const rows = [...table.querySelectorAll("tbody tr")].filter((row) => row.dataset.x);
  if (!rows.length) return;
  const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
  const places = pictures.map((_, i) => rows.map((row) => Number(row.dataset.x.split(" ")[i])));
  const title = figure.querySelector("figcaption strong").textContent;
  const reader = document.createElement("div");
  const slider = document.createElement("input");
  const output = document.createElement("output");
  reader.className = "reader";
  Object.assign(slider, { type: "range", min: 0, max: rows.length - 1, step: 1, value: Math.floor(rows.length / 2) });
  slider.setAttribute("aria-label", "Read values: " + title);
  reader.append(slider, output);
  pictures.at(-1).after(reader);
  const show = (index) => {
    const cells = [...rows[index].cells].map((cell) => cell.textContent);
    slider.value = index;
    slider.setAttribute("aria-valuetext", names.map((name, i) => name + " " + cells[i]).join(", "));
    output.replaceChildren();
    names.forEach((name, i) => {
      const strong = document.createElement("b");
      strong.textContent = cells[i].split(" (")[0];
      output.append(name + " ", strong, i + 1 < names.length ? " \u00b7 " : "");
    });
    pictures.forEach((svg, i) => {
      const cursor = svg.querySelector(".cursor");
      const x = places[i][index] * svg.viewBox.baseVal.width;
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.setAttribute("visibility", "visible");
    });
    rows.forEach((row, i) => row.classList.toggle("now", i === index));
  };
  pictures.forEach((svg, i) => svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    show(places[i].reduce((best, place, at) => (Math.abs(place - x) < Math.abs(places[i][best] - x) ? at : best), 0));
  }));
  slider.addEventListener("input", () => show(Number(slider.value)));
  slider.addEventListener("focus", () => show(Number(slider.value)));
  output.textContent = "Point at the picture, or touch it, to read values.";
});
