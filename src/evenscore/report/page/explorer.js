
// Other thresholds and tolerances: every number was computed before; here they are looked up. The address keeps what was chosen.
document.querySelectorAll(".explorer").forEach((explorer) => {
  const numbers = JSON.parse(explorer.querySelector("script").textContent);
  const words = { disparity: "beyond", parity: "within", inconclusive: "undecided" };
  const state = () => new URLSearchParams(location.hash.slice(1));
  const remember = (name, value) => {
    const chosen = state();
    if (!location.hash.includes("=")) [...chosen.keys()].forEach((key) => chosen.delete(key));
    chosen.set(name, value);
    try { history.replaceState(null, "", "#" + chosen); } catch { /* an address that cannot be changed, as in a frame */ }
  };
  const set = (element, values) => Object.entries(values).forEach(([name, value]) => element.setAttribute(name, value));
  const showThreshold = (own, part, at) => {
    part.querySelectorAll(".live b").forEach((number, place) => { number.textContent = own.sums[at][place]; });
    part.querySelectorAll("tbody tr").forEach((row, group) => {
      ["rate", "outcome", "fair", "change"].forEach((name, place) => { row.cells[place + 2].textContent = own[name][at][group]; });
      const x = own.x[at];
      const strip = row.querySelector("svg");
      const wide = strip.viewBox.baseVal.width;
      set(strip.querySelector(".now"), { x1: x, x2: x });
      set(strip.querySelector(".side"), own.above ? { x, width: wide - x } : { x: 0, width: x });
      set(strip.querySelector(".fair"), { x1: own.fairX[at][group], x2: own.fairX[at][group] });
    });
  };
  const verdict = (own, pair, at) => {
    const tolerance = own.tolerance[at];
    const [exceeds, within] = own.limits[pair];
    if (tolerance === 0 && own.asked) return own.asked[pair];
    if (exceeds !== null && tolerance < exceeds) return "disparity";
    return within !== null && tolerance > within ? "parity" : "inconclusive";
  };
  const showTolerance = (own, part, at) => {
    const found = own.limits.map((_, pair) => verdict(own, pair, at));
    part.querySelectorAll(".badge").forEach((badge, pair) => {
      badge.className = "badge " + found[pair];
      badge.textContent = words[found[pair]];
    });
    const counts = Object.keys(words).map((name) => found.filter((each) => each === name).length);
    part.querySelectorAll(".live b").forEach((number, place) => { number.textContent = counts[place]; });
  };
  [["thresholds", "threshold", showThreshold, "score"], ["tolerances", "tolerance", showTolerance, "tolerance"]].forEach(
    ([name, single, show, values]) => {
      const own = numbers[name];
      if (!own) return;
      const part = explorer.querySelector(`[data-try="${name}"]`);
      const slider = part.querySelector("input");
      const key = explorer.dataset.prefix + single;
      const move = (at) => {
        slider.value = at;
        slider.setAttribute("aria-valuetext", own.text[at]);
        part.querySelector(".value").textContent = own.text[at];
        show(own, part, at);
      };
      const recall = () => {
        const kept = Number(state().get(key) ?? NaN);
        const at = Number.isNaN(kept) ? -1 : own[values].indexOf(kept);
        if (at < 0) return;
        explorer.closest("details.section").open = true;
        move(at);
      };
      slider.hidden = false;
      slider.addEventListener("input", () => {
        move(Number(slider.value));
        remember(key, own[values][slider.value]);
      });
      addEventListener("hashchange", recall);
      recall();
    });
});
