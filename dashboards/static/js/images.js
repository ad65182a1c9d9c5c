// The images card: for each camera the chosen image with its outline, its figures and verdict, and the time-lapse.

import { call } from "./api.js";
import { byId, h, redraw, s } from "./dom.js";
import { capital, duration, fixed, inUtc, moment } from "./format.js";
import { spoken } from "./words.js";

/** @import { CameraImages, FrameModel, ImagesModel, TimeLapseModel } from "../../types/api.d.ts" */

const PERIOD_MS = 30_000;
const FRAMES = 120;
/** Minimum distance of two frames while the time-lapse plays. */
const STEP_MS = 250;
/** Longest wait for a frame that loads. */
const LOAD_MS = 3000;

/**
 * Read the images now and then, and show them.
 * @param {string[]} cameras - names; without any the card stays hidden
 */
export function startImages(cameras) {
  if (!cameras.length) return;
  byId("images").hidden = false;
  const views = cameras.map((name) => new CameraView(name, cameras.length > 1));
  byId("images-body").replaceChildren(...views.map((view) => view.node));
  const refresh = async () => {
    if (document.hidden) return;
    /** @type {ImagesModel | null} */
    const found = await call("GET", "/api/images", undefined, { quiet: true }).catch(() => null);
    found?.cameras.forEach((camera) => views.find((view) => view.name === camera.camera)?.update(camera));
  };
  refresh();
  setInterval(refresh, PERIOD_MS);
  document.addEventListener("visibilitychange", refresh);
}

/** One camera. */
class CameraView {
  /**
   * @param {string} name
   * @param {boolean} named - whether the captions name the camera: the rig has several
   */
  constructor(name, named) {
    this.name = name;
    this.named = named;
    /** @type {FrameModel[]} */
    this.frames = [];
    /** @type {CameraImages | null} */
    this.camera = null;
    this.read = "";
    this.playing = false;
    /** Counts how often it was played: a step of an earlier time does nothing. */
    this.turn = 0;
    /** The address that gave no image; empty when the present one has not failed. */
    this.failed = "";
    this.image = h("img", { class: "frame-image", alt: "", decoding: "async", hidden: true });
    this.image.onerror = () => {
      this.failed = this.image.getAttribute("src") ?? "";
      this.show(this.frame);
    };
    /** @type {FrameModel | null} What is shown. */
    this.frame = null;
    this.outline = s("polygon", { class: "frame-outline" });
    const box = { viewBox: "0 0 1000 1000", preserveAspectRatio: "none" };
    const overlay = s("svg", { class: "frame-overlay", ...box, "aria-hidden": true }, this.outline);
    this.missing = h("p", { class: "empty" });
    this.caption = h("figcaption", { class: "frame-caption" });
    this.facts = h("dl", { class: "frame-facts" });
    this.problem = h("p", { class: "note frame-problem", hidden: true });
    this.slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": `Image of ${name}` });
    this.slider.oninput = () => this.choose(Number(this.slider.value));
    this.button = h("button", { class: "frame-play", onclick: () => this.toggle() });
    this.controls = h("div", { class: "frame-controls", hidden: true }, this.button, this.slider);
    const place = h("div", { class: "frame-place" }, this.image, overlay, this.missing);
    this.node = h(
      "section",
      { class: "camera", "data-camera": name, "aria-label": `Images of ${name}` },
      h("figure", { class: "frame" }, place, this.caption),
      this.controls,
      this.facts,
      this.problem,
    );
    this.label();
  }

  /**
   * Show the present state of the camera; reads the time-lapse again when there is a new image.
   * @param {CameraImages} camera
   */
  async update(camera) {
    this.camera = camera;
    this.problem.hidden = !camera.problem;
    this.problem.textContent = camera.problem.replace(/`([^`]+)`/g, "“$1”");
    const newest = camera.newest;
    if (!newest) {
      this.show(null);
      return;
    }
    if (this.read === newest.utc) return;
    this.read = newest.utc;
    const path = `/api/images/${encodeURIComponent(this.name)}?limit=${FRAMES}`;
    /** @type {TimeLapseModel | null} */
    const found = await call("GET", path, undefined, { quiet: true }).catch(() => null);
    if (!found) this.read = "";
    if (!found && this.frames.length) return;
    const atEnd = Number(this.slider.value) >= this.frames.length - 1;
    this.frames = found?.frames ?? [newest];
    const last = this.frames.length - 1;
    this.slider.max = String(last);
    this.controls.hidden = last < 1;
    this.choose(atEnd && !this.playing ? last : Math.min(Number(this.slider.value), last));
  }

  /** @param {number} index */
  choose(index) {
    this.slider.value = String(index);
    const frame = this.frames[index] ?? null;
    this.slider.setAttribute("aria-valuetext", frame ? `${moment(frame.utc)}, ${frame.verdict}` : "");
    this.show(frame);
  }

  /** Play the time-lapse from its first image, or stop it. */
  toggle() {
    this.playing = !this.playing;
    this.label();
    if (!this.playing) return;
    const index = Number(this.slider.value);
    this.turn += 1;
    this.step(index >= this.frames.length - 1 ? 0 : index, this.turn);
  }

  /**
   * @param {number} index
   * @param {number} turn
   */
  async step(index, turn) {
    if (!this.playing || turn !== this.turn) return;
    this.choose(index);
    if (index >= this.frames.length - 1) {
      this.playing = false;
      this.label();
      return;
    }
    const wait = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
    await Promise.all([wait(STEP_MS), Promise.race([this.image.decode().catch(() => null), wait(LOAD_MS)])]);
    this.step(index + 1, turn);
  }

  label() {
    this.button.textContent = this.playing ? "Stop" : "Play";
    this.button.setAttribute("aria-label", `${this.playing ? "Stop" : "Play"} the time-lapse of ${this.name}`);
  }

  /** @param {FrameModel | null} frame */
  show(frame) {
    const chamber = this.camera?.chamber ?? this.name;
    this.frame = frame;
    this.draw(frame?.src ?? "", frame);
    this.missing.textContent = this.absence(frame);
    this.image.alt = frame ? altText(chamber, frame) : "";
    const place = this.named ? `${chamber} (${spoken(this.name)})` : chamber;
    redraw(this.caption, [frame?.utc, frame?.verdict], () => frame && captionOf(place, frame));
    redraw(this.facts, frame, () => frame && factsOf(frame));
  }

  /**
   * Return why there is no image.
   * @param {FrameModel | null} frame
   */
  absence(frame) {
    if (!frame) return this.camera?.problem ? "No image yet: see below." : "The first image is due soon.";
    return frame.src ? "No data: the file of this image is gone or cannot be read." : "This image was not kept.";
  }

  /**
   * Draw the image with its outline.
   * @param {string} src - empty without an image
   * @param {FrameModel | null} frame
   */
  draw(src, frame) {
    const { image, outline } = this;
    if (src && image.getAttribute("src") !== src) {
      this.failed = "";
      image.setAttribute("src", src);
    }
    const seen = Boolean(src) && src !== this.failed;
    this.missing.hidden = seen;
    image.hidden = !seen;
    outline.setAttribute("points", seen && frame ? frame.outline : "");
    outline.classList.toggle("unusable", !frame?.usable);
  }
}

/**
 * Return what an image shows, for people who do not see it.
 * @param {string} chamber
 * @param {FrameModel} frame
 */
function altText(chamber, frame) {
  const size = frame.features ? `, diameter ${fixed(frame.features.diameter_mm, 2)} mm` : ", no tissue found";
  return `Brightfield image of ${chamber}, ${moment(frame.utc)}: ${frame.verdict}${size}`;
}

/**
 * @param {string} place - the chamber, of several cameras with the name of this one
 * @param {FrameModel} frame
 */
function captionOf(place, frame) {
  return [
    h("span", { text: `${place} · `, title: inUtc(frame.utc) }, moment(frame.utc)),
    h("span", { class: `frame-verdict ${frame.usable ? "good" : "fair"}`, text: capital(frame.verdict) }),
  ];
}

/** @param {FrameModel} frame */
function factsOf({ features, growth, usable, note: told }) {
  /** @type {[name: string, value: string, title: string][]} */
  const rows = [];
  if (features) {
    const area = `${fixed(features.area_mm2, 2)} ± ${fixed(features.area_sd_mm2, 2)} mm²`;
    rows.push(
      ["Area", area, "Projected area and its standard deviation"],
      ["Diameter", `${fixed(features.diameter_mm, 2)} mm`, "Of the disc of equal area"],
      ["Circularity", fixed(features.circularity, 2), "1 for a disc"],
      ["Rim width", `${fixed(features.rim_width_um, 0)} µm`, "Width over which the density rises"],
      ["Optical density", fixed(features.opacity, 2), "Mean opacity, log10; compare at equal diameter"],
    );
  }
  if (growth) {
    const rate = `${signed(growth.per_day)} (${signed(growth.low)} to ${signed(growth.high)}) % a day`;
    const over = `Area, 90 % interval, ${growth.images} images over ${duration(growth.span_d * 86400)}`;
    rows.push(["Growth", rate, over]);
  }
  const note = features && !usable ? "Not used: this image is spoilt" : "";
  return [
    rows.map(([name, value, title]) => h("div", { title }, h("dt", { text: name }), h("dd", { text: value }))),
    note && h("div", { class: "frame-unused" }, h("dt", { text: "Figures" }), h("dd", { text: note })),
    told && h("div", { class: "frame-unused" }, h("dt", { text: "Note" }), h("dd", { text: told })),
  ];
}

/** @param {number} share */
const signed = (share) => `${share > 0 ? "+" : ""}${fixed(100 * share, 1)}`;
