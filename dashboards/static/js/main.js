// The page: signs in, reads the rig, then follows the live feed and passes each part of the state to its view.

import { signIn } from "./account.js";
import { follow, take } from "./address.js";
import { AlarmList } from "./alarms/list.js";
import { call, Failure } from "./api.js";
import { ArrayPanel } from "./array/panel.js";
import { enterAssay, startAssays } from "./assays.js";
import { startCards } from "./cards.js";
import { ChamberDetails } from "./chamber.js";
import { Trends } from "./charts/trends.js";
import { startDecisions } from "./decisions.js";
import { byId } from "./dom.js";
import { Faults } from "./faults.js";
import { Feed } from "./feed.js";
import { showGrade } from "./grade.js";
import { ASSAY, confirmTask, enterWork, TASK } from "./handling.js";
import { applyTheme, applyZone, Header } from "./header.js";
import { startImages } from "./images.js";
import { startJournal } from "./journal.js";
import { showLedger } from "./ledger.js";
import { startLibrary } from "./library.js";
import { Protocols } from "./protocol.js";
import { Raster } from "./raster.js";
import { Schematic } from "./schematic/view.js";
import { showViability } from "./viability.js";

/** @import { VolumeView } from "../../types/api.d.ts" */
/** @import { LiveMessage, LiveState, Rig } from "../../types/live.d.ts" */

const RETRY_MS = 1000;

/** Sign in with the token of a link. It follows the #, so that no server logs it; the address bar drops it at once. */
async function signInWithLink() {
  const token = take("token");
  if (!token) return;
  await call("POST", "/api/session", undefined, { token }).catch(() => null);
}

/**
 * Read the rig. Asks the user to sign in if necessary, and waits for the controller.
 * @returns {Promise<Rig>}
 */
async function readRig() {
  for (;;) {
    try {
      return await call("GET", "/api/rig", undefined, { quiet: true });
    } catch (failure) {
      if (failure instanceof Failure && failure.status === 401) {
        await signIn();
      } else {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }
}

/** The views of the page. */
class Page {
  /**
   * @param {Rig} rig
   * @param {import("../../types/api.d.ts").ProtocolView[]} protocols
   */
  constructor(rig, protocols) {
    this.rig = rig;
    const mayOperate = rig.role !== "viewer";
    /** @type {Record<string, VolumeView>} */
    this.volumes = {};
    /** @type {(name: string, action?: string) => void} */
    const enterFor = (name, action) => {
      if (action === TASK) {
        confirmTask(name);
        return;
      }
      if (action === ASSAY) {
        enterAssay();
        return;
      }
      const vessel = rig.schematic.vessels.find((each) => each.name === name);
      if (vessel) enterWork(vessel, this.volumes[name], action);
    };
    const enter = mayOperate ? enterFor : null;
    this.alarms = new AlarmList(mayOperate, enter);
    this.header = new Header(rig, mayOperate, (utc) => this.alarms.markAsOf(utc));
    /** @type {ChamberDetails} */
    this.chamber = new ChamberDetails(rig, enter, (name) => {
      this.schematic.mark(name);
      this.trends.choose(name);
    });
    this.schematic = new Schematic(rig, enter, (name) => this.chamber.select(name));
    this.trends = new Trends(rig);
    this.protocols = new Protocols(protocols, mayOperate);
    this.raster = rig.electrodes ? new Raster(byId("raster", HTMLCanvasElement), rig.electrodes) : null;
    if (rig.electrodes) this.array = new ArrayPanel({ ...rig, electrodes: rig.electrodes });
    startLibrary(mayOperate, () => this.protocols.reload());
    startJournal();
    startImages(rig.cameras);
    startCards(rig);
    if (can(rig, "spent_medium")) {
      startDecisions();
      startAssays(mayOperate);
    }
    showCards(rig);
    if (rig.faults) new Faults(mayOperate);
    follow("chamber", (name) => this.chamber.show(name));
    follow("card", showCard);
  }

  /**
   * Show the state after a message of the feed.
   * @param {LiveState} state
   * @param {LiveMessage} changes
   */
  update(state, changes) {
    this.volumes = state.volumes;
    this.header.update(state);
    this.schematic.update(state);
    this.chamber.update(state);
    this.trends.update(state);
    if ("run" in changes) this.protocols.update(state.run);
    const suppressed = "suppressed" in changes;
    if ("alarms" in changes || suppressed) this.alarms.show(state.alarms, state.suppressed);
    if ("ledger" in changes) showLedger(state.ledger, can(this.rig, "spent_medium"));
    if ("grade" in changes || "scores" in changes) showCondition(state);
    this.raster?.update(changes.spikes, Boolean(changes.whole), state.nerves);
  }
}

/**
 * Show the grade of the medium, and the scores of the tissue; each redraws itself only if it has changed.
 * @param {LiveState} state
 */
function showCondition({ grade, scores }) {
  showGrade(grade, scores?.viability?.quantities);
  showViability(scores);
}

/**
 * Return whether the rig has a function.
 * @param {Rig} rig
 * @param {string} id
 */
const can = (rig, id) => rig.capabilities.some((each) => each.function === id && each.available);

/**
 * Hide the cards that have no content on this rig; the list of functions says what it lacks.
 * @param {Rig} rig
 */
function showCards(rig) {
  const exchanges = can(rig, "spent_medium");
  byId("grade").hidden = !exchanges;
  byId("decisions-card").hidden = !exchanges;
  byId("ledger").hidden = !rig.schematic.lines.some((line) => line.pump);
}

/**
 * Show the card that the address names.
 * @param {string | null} id
 */
function showCard(id) {
  const card = [...document.querySelectorAll(".card[id]")].find((each) => each.id === id);
  const details = card?.querySelector("details");
  if (details) details.open = true;
  card?.scrollIntoView();
}

/** Keep the height above the columns in `--above`: the columns fill the rest of the window. */
function measureAbove() {
  const above = ["head", "alarm-list", "emergency", "fault-banner"].map((id) => byId(id));
  const measure = () => {
    const height = above.reduce((sum, each) => sum + each.offsetHeight, 0);
    document.documentElement.style.setProperty("--above", `${height}px`);
  };
  const observer = new ResizeObserver(measure);
  above.forEach((each) => observer.observe(each));
}

async function start() {
  applyTheme();
  await signInWithLink();
  const rig = await readRig();
  applyZone(rig.time_zone);
  const { protocols } = await call("GET", "/api/protocols");
  const page = new Page(rig, protocols);
  measureAbove();
  document.body.classList.add("ready");
  const feed = new Feed(
    (state, changes) => page.update(state, changes),
    (status) => {
      page.header.setLink(status);
      if (status === "refused") location.reload();
    },
  );
  Object.assign(window, { choroid: { feed } });
}

start();
